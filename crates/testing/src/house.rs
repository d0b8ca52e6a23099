//! The house of a crate: which of its modules know which, and the texts in them. Read from the
//! sources, token by token.
//!
//! What only tests have is left out: items under `#[cfg(test)]` and `#[cfg(all(test, …))]`, and the
//! files of such modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Ident, Spacing, TokenStream, TokenTree};

/// A path in the code that leads to a module of the same crate: by `crate::`, by `super::`, or by
/// the name of a module in it.
#[derive(Clone, Debug)]
pub struct Import {
    /// Relative to `src`.
    pub file: PathBuf,
    pub line: usize,
    /// The module with the path, from the crate's root on.
    pub from: Vec<String>,
    /// What it leads to, from the crate's root on: modules, then an item. A glob ends with `*`.
    pub to: Vec<String>,
    /// It only hands a name of a module in it on: `pub use inner::Name`.
    hands_on: bool,
}

impl fmt::Display for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} imports {}", self.file.display(), self.line, self.to.join("::"))
    }
}

/// A string literal.
#[derive(Clone, Debug)]
pub struct Text {
    /// Relative to `src`.
    pub file: PathBuf,
    pub line: usize,
    /// As the program has it, except for rare escapes, such as `\u{e9}`.
    pub text: String,
    /// The attribute that the literal stands in, such as `error`.
    pub attribute: Option<String>,
    module: Vec<String>,
}

/// Those of the crate whose sources are in the folder `src`.
pub fn imports(src: &Path) -> Vec<Import> {
    let House { mut imports, tests, .. } = House::of(src);
    imports.retain(|import| !tests.iter().any(|test| import.from.starts_with(test)));
    imports
}

/// Those of the crate whose sources are in the folder `src`. Comments are none.
pub fn texts(src: &Path) -> Vec<Text> {
    let House { mut texts, tests, .. } = House::of(src);
    texts.retain(|text| !tests.iter().any(|test| text.module.starts_with(test)));
    texts
}

/// The circles of files of the crate whose sources are in the folder `src`, each as the imports
/// that lead round. A name that a module hands on is that of the file that defines it.
pub fn file_circles(src: &Path) -> Vec<String> {
    let imports = imports(src);
    let files: BTreeMap<Vec<String>, PathBuf> = sources(src)
        .iter()
        .map(|path| path.strip_prefix(src).unwrap().to_owned())
        .map(|file| (module_of(&file), file))
        .collect();
    let handed_on: BTreeMap<Vec<String>, Vec<String>> = imports
        .iter()
        .filter(|import| import.hands_on)
        .filter_map(|import| {
            let name = import.to.last()?;
            Some(([&import.from[..], std::slice::from_ref(name)].concat(), import.to.clone()))
        })
        .collect();
    let file_of = |path: &[String]| {
        let mut path = path.to_vec();
        // A name may be handed on by several.
        for _ in 0..8 {
            let handed = (1..=path.len()).find_map(|end| Some((end, handed_on.get(&path[..end])?)));
            let Some((end, to)) = handed else { break };
            path = [&to[..], &path[end..]].concat();
        }
        (0..=path.len()).rev().find_map(|end| files.get(&path[..end])).cloned()
    };
    let mut known: BTreeMap<PathBuf, BTreeMap<PathBuf, &Import>> = BTreeMap::new();
    for import in imports.iter().filter(|import| !import.hands_on) {
        if let Some(to) = file_of(&import.to).filter(|to| *to != import.file) {
            known.entry(import.file.clone()).or_default().entry(to).or_insert(import);
        }
    }
    strongly_tied(&known)
        .into_iter()
        .map(|circle| {
            let inside = known.iter().filter(|(from, _)| circle.contains(*from));
            let lines = inside.flat_map(|(_, next)| {
                next.iter().filter(|(to, _)| circle.contains(*to)).map(|(_, one)| one.to_string())
            });
            format!("{} files:\n{}", circle.len(), lines.collect::<Vec<_>>().join("\n"))
        })
        .collect()
}

/// Sets of files each of which leads to all others of the set.
fn strongly_tied(known: &BTreeMap<PathBuf, BTreeMap<PathBuf, &Import>>) -> Vec<BTreeSet<PathBuf>> {
    let reached = |from: &PathBuf| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(file) = next.pop() {
            for to in known.get(&file).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&PathBuf, BTreeSet<PathBuf>> =
        known.keys().map(|file| (file, reached(file))).collect();
    let mut circles: Vec<BTreeSet<PathBuf>> = Vec::new();
    for (file, seen) in &reach {
        let leads_back = |other: &&PathBuf| reach.get(other).is_some_and(|r| r.contains(*file));
        let circle: BTreeSet<PathBuf> = seen.iter().filter(leads_back).cloned().collect();
        if circle.len() > 1 && circle.contains(*file) && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// Fails the test if a folder or file in `src` of the crate at `manifest` knows one that knows it.
///
/// It also fails if an import goes by way of a root or a glob: that would hide whose the item is.
/// `least`: imports that must have been read.
pub fn assert_no_circle(manifest: &str, least: usize) {
    let src = Path::new(manifest).join("src");
    let imports = imports(&src);
    assert!(imports.len() > least, "the sources were read");
    let is_module =
        |first: &String| src.join(first).is_dir() || src.join(first).with_extension("rs").is_file();
    let hidden = imports.iter().find(|import| !import.to.first().is_some_and(is_module));
    assert!(hidden.is_none(), "{}; name the module that it is of", hidden.unwrap());
    if let Some(circle) = circle(&imports, |module| module.first().cloned()) {
        panic!("a circle; move what they share below both:\n{circle}");
    }
}

/// Imports that lead from one part of the crate over others back to it, one a line; none: no part
/// leads back. `part` says which part a module or an item is of; none: of none that counts.
pub fn circle(imports: &[Import], part: impl Fn(&[String]) -> Option<String>) -> Option<String> {
    let mut known: Known<'_> = BTreeMap::new();
    for import in imports {
        if let (Some(from), Some(to)) = (part(&import.from), part(&import.to))
            && from != to
        {
            known.entry(from).or_default().entry(to).or_insert(import);
        }
    }
    for (from, next) in &known {
        for (to, import) in next {
            let mut way = vec![*import];
            if leads(&known, to, from, &mut BTreeSet::new(), &mut way) {
                return Some(way.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
            }
        }
    }
    None
}

/// Part → the parts that it knows, each with an import that says so.
type Known<'a> = BTreeMap<String, BTreeMap<String, &'a Import>>;

/// Whether one part comes to know another; `way` becomes longer by the imports that say so.
fn leads<'a>(
    known: &Known<'a>,
    from: &str,
    to: &str,
    seen: &mut BTreeSet<String>,
    way: &mut Vec<&'a Import>,
) -> bool {
    for (next, import) in known.get(from).into_iter().flatten() {
        way.push(import);
        if next == to || (seen.insert(next.clone()) && leads(known, next, to, seen, way)) {
            return true;
        }
        way.pop();
    }
    false
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let below = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    entries.into_iter().flat_map(below).filter(is_source).collect()
}

fn module_of(file: &Path) -> Vec<String> {
    let mut module: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| last == "mod") || module == ["lib"] {
        module.pop();
    }
    module
}

#[derive(Default)]
struct House {
    /// All modules that have a file.
    modules: BTreeSet<Vec<String>>,
    imports: Vec<Import>,
    texts: Vec<Text>,
    /// Modules that only tests have.
    tests: Vec<Vec<String>>,
}

impl House {
    fn of(src: &Path) -> House {
        let paths = sources(src);
        let module = |path: &PathBuf| module_of(path.strip_prefix(src).unwrap());
        let mut house = House { modules: paths.iter().map(module).collect(), ..House::default() };
        for path in paths {
            let file = path.strip_prefix(src).unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            let tokens = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let module = module_of(&file);
            house.read(tokens, &file, &module, None);
        }
        house
    }

    /// `attribute`: the one that the tokens are in.
    fn read(
        &mut self,
        tokens: TokenStream,
        file: &Path,
        module: &[String],
        attribute: Option<&str>,
    ) {
        let tokens = without_self(tokens);
        let mut rest = &tokens[..];
        loop {
            rest = match rest {
                [] => return,
                [TokenTree::Punct(hash), TokenTree::Group(attribute), after @ ..]
                    if hash.as_char() == '#' && is_for_tests(attribute.stream()) =>
                {
                    self.skip_item(after, file, module)
                }
                [TokenTree::Punct(hash), TokenTree::Group(inner), after @ ..]
                    if hash.as_char() == '#' && inner.delimiter() == Delimiter::Bracket =>
                {
                    let inner = inner.stream();
                    let name = inner.clone().into_iter().next().map(|name| name.to_string());
                    if !is_comment(&inner) {
                        self.read(inner, file, module, name.as_deref());
                    }
                    after
                }
                [
                    TokenTree::Ident(word),
                    TokenTree::Ident(name),
                    TokenTree::Group(body),
                    after @ ..,
                ] if word == "mod" => {
                    let module = [module, &[name.to_string()]].concat();
                    self.read(body.stream(), file, &module, attribute);
                    after
                }
                [TokenTree::Ident(word), after @ ..] if *word == "crate" || *word == "super" => {
                    let base = if word == "crate" { &[] } else { above(module) };
                    self.follow(base, after, file, module)
                }
                // `pub use inner::Name`, also with `pub(…)` and `self::`.
                [
                    TokenTree::Ident(word),
                    TokenTree::Ident(using),
                    TokenTree::Ident(inner),
                    after @ ..,
                ] if word == "pub" && using == "use" && self.has(module, inner) => {
                    self.hand_on(inner, after, file, module)
                }
                [
                    TokenTree::Ident(word),
                    TokenTree::Group(_),
                    TokenTree::Ident(using),
                    TokenTree::Ident(inner),
                    after @ ..,
                ] if word == "pub" && using == "use" && self.has(module, inner) => {
                    self.hand_on(inner, after, file, module)
                }
                [TokenTree::Ident(inner), TokenTree::Punct(one), TokenTree::Punct(two), ..]
                    if (one.as_char(), two.as_char()) == (':', ':')
                        && one.spacing() == Spacing::Joint =>
                {
                    let after = &rest[1..];
                    if self.has(module, inner) {
                        let base = [module, &[inner.to_string()]].concat();
                        self.follow(&base, after, file, module)
                    } else {
                        past_path(after)
                    }
                }
                [TokenTree::Group(group), after @ ..] => {
                    let inner = group.stream();
                    if !is_comment(&inner) {
                        self.read(inner, file, module, attribute);
                    }
                    after
                }
                [TokenTree::Literal(literal), after @ ..] => {
                    if let Some(text) = text_of(&literal.to_string()) {
                        self.texts.push(Text {
                            file: file.to_owned(),
                            line: literal.span().start().line,
                            text,
                            attribute: attribute.map(str::to_owned),
                            module: module.to_vec(),
                        });
                    }
                    after
                }
                [_, after @ ..] => after,
            };
        }
    }

    fn has(&self, module: &[String], inner: &Ident) -> bool {
        self.modules.contains(&[module, &[inner.to_string()]].concat())
    }

    fn hand_on<'t>(
        &mut self,
        inner: &Ident,
        rest: &'t [TokenTree],
        file: &Path,
        module: &[String],
    ) -> &'t [TokenTree] {
        let before = self.imports.len();
        let rest = self.follow(&[module, &[inner.to_string()]].concat(), rest, file, module);
        self.imports[before..].iter_mut().for_each(|import| import.hands_on = true);
        rest
    }

    /// Goes along the path that `base` begins, through its groups, and returns what comes after it.
    fn follow<'t>(
        &mut self,
        base: &[String],
        mut rest: &'t [TokenTree],
        file: &Path,
        module: &[String],
    ) -> &'t [TokenTree] {
        let mut to = base.to_vec();
        let mut line = None;
        while let [TokenTree::Punct(one), TokenTree::Punct(two), next, after @ ..] = rest {
            if (one.as_char(), two.as_char()) != (':', ':') {
                break;
            }
            match next {
                TokenTree::Ident(word) if word == "super" => {
                    to.truncate(to.len().saturating_sub(1))
                }
                TokenTree::Ident(word) => to.push(word.to_string()),
                TokenTree::Punct(star) if star.as_char() == '*' => to.push("*".to_owned()),
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    let parts: Vec<TokenTree> = group.stream().into_iter().collect();
                    for part in parts.split(is_comma) {
                        self.follow_part(&to, part, file, module);
                    }
                    return after;
                }
                // Type arguments, for example.
                _ => break,
            }
            line = Some(next.span().start().line);
            rest = after;
        }
        if let Some(line) = line {
            self.note(file, line, module, to);
        }
        rest
    }

    fn note(&mut self, file: &Path, line: usize, module: &[String], to: Vec<String>) {
        let (file, from) = (file.to_owned(), module.to_vec());
        self.imports.push(Import { file, line, from, to, hands_on: false });
    }

    /// One of the paths in the braces behind `base`.
    fn follow_part(&mut self, base: &[String], part: &[TokenTree], file: &Path, module: &[String]) {
        let Some(first) = part.first() else { return };
        let mut to = base.to_vec();
        if first.to_string() != "self" {
            to.push(first.to_string());
        }
        let imports = self.imports.len();
        self.follow(&to, &part[1..], file, module);
        if self.imports.len() == imports {
            self.note(file, first.span().start().line, module, to);
        }
    }

    /// What comes after the item, field or arm that the tokens begin with.
    fn skip_item<'t>(
        &mut self,
        mut rest: &'t [TokenTree],
        file: &Path,
        module: &[String],
    ) -> &'t [TokenTree] {
        let mut open_angles = 0;
        let mut before = ' ';
        while let [token, after @ ..] = rest {
            match rest {
                [TokenTree::Ident(word), TokenTree::Ident(name), ..] if word == "mod" => {
                    self.tests.push([module, &[name.to_string()]].concat());
                }
                [TokenTree::Punct(hash), TokenTree::Group(attribute), ..]
                    if hash.as_char() == '#' =>
                {
                    self.tests.extend(
                        path_of(attribute.stream())
                            .map(|name| module_of(&file.with_file_name(name))),
                    );
                }
                _ => {}
            }
            rest = after;
            let now = match token {
                TokenTree::Punct(punct) => punct.as_char(),
                _ => ' ',
            };
            match now {
                '<' => open_angles += 1,
                '>' if before != '-' && before != '=' => open_angles -= 1,
                ';' => break,
                ',' if open_angles == 0 => break,
                _ => {}
            }
            if matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace) {
                break;
            }
            before = now;
        }
        rest
    }
}

/// Comments for readers of the documentation are the attribute `doc`.
fn is_comment(attribute: &TokenStream) -> bool {
    let mut tokens = attribute.clone().into_iter();
    let is = |token: Option<TokenTree>, text| token.is_some_and(|token| token.to_string() == text);
    is(tokens.next(), "doc") && is(tokens.next(), "=")
}

/// The text that a literal stands for; none: it is no text.
fn text_of(literal: &str) -> Option<String> {
    let mut rest = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::new();
    while let Some((before, behind)) = rest.split_once('\\') {
        text += before;
        let mut behind = behind.chars();
        match behind.next() {
            // The line goes on in the next one.
            Some('\n') => behind = behind.as_str().trim_start().chars(),
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some(other) => text.push(other),
            None => {}
        }
        rest = behind.as_str();
    }
    Some(text + rest)
}

/// `self::name` is `name`.
fn without_self(tokens: TokenStream) -> Vec<TokenTree> {
    let mut kept: Vec<TokenTree> = Vec::new();
    for token in tokens {
        kept.push(token);
        if let [.., TokenTree::Ident(word), TokenTree::Punct(one), TokenTree::Punct(two)] =
            &kept[..]
            && word == "self"
            && (one.as_char(), two.as_char()) == (':', ':')
        {
            kept.truncate(kept.len() - 3);
        }
    }
    kept
}

/// What comes after a path, whose names are none of this crate's modules.
fn past_path(mut rest: &[TokenTree]) -> &[TokenTree] {
    while let [TokenTree::Punct(one), TokenTree::Punct(two), TokenTree::Ident(_), after @ ..] = rest
    {
        if (one.as_char(), two.as_char()) != (':', ':') {
            break;
        }
        rest = after;
    }
    rest
}

fn above(module: &[String]) -> &[String] {
    module.split_last().map_or(&[], |(_, above)| above)
}

/// What `#[path = "…"]` says.
fn path_of(attribute: TokenStream) -> Option<String> {
    match &attribute.into_iter().collect::<Vec<_>>()[..] {
        [TokenTree::Ident(word), _, TokenTree::Literal(path)] if word == "path" => {
            Some(path.to_string().trim_matches('"').to_owned())
        }
        _ => None,
    }
}

fn is_comma(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',')
}

/// Whether an attribute is `cfg(test)` or `cfg(all(test, …))`.
fn is_for_tests(attribute: TokenStream) -> bool {
    fn needs_test(condition: &[TokenTree]) -> bool {
        match condition {
            [TokenTree::Ident(word)] => word == "test",
            [TokenTree::Ident(word), TokenTree::Group(all)] if word == "all" => {
                all.stream().into_iter().collect::<Vec<_>>().split(is_comma).any(needs_test)
            }
            _ => false,
        }
    }
    match &attribute.into_iter().collect::<Vec<_>>()[..] {
        [TokenTree::Ident(word), TokenTree::Group(condition)] if word == "cfg" => {
            needs_test(&condition.stream().into_iter().collect::<Vec<_>>())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house(files: &[(&str, &str)]) -> Vec<Import> {
        let src = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = src.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        imports(src.path())
    }

    fn said(files: &[(&str, &str)]) -> Vec<String> {
        house(files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paths_are_found_wherever_they_are_and_comments_and_texts_are_none() {
        let text = "//! crate::comment\nuse crate::a::{self, b::C,\n  d::{E, f::*}};\n/// \
            crate::comment\n\
                    fn g() -> crate::h::I<crate::j::K> \
                    { assert!(super::super::l(\"crate::text\")); }\n\
                    pub(crate) mod inner { use super::super::m; use super::*; }\nuse crate::*;\n";
        let found = said(&[("x/y.rs", text)]);
        let expected = [
            "2 imports a",
            "2 imports a::b::C",
            "3 imports a::d::E",
            "3 imports a::d::f::*",
            "5 imports h::I",
            "5 imports j::K",
            "5 imports l",
            "6 imports x::m",
            "6 imports x::y::*",
            "7 imports *",
        ];
        assert_eq!(found, expected.map(|rest| format!("x/y.rs:{rest}")));
    }

    #[test]
    fn what_only_tests_have_is_left_out_and_no_more() {
        let root = "#[cfg(test)]\n#[path = \"only_tests.rs\"]\nmod tests;\n#[cfg(all(test, \
            not(feature = \"x\")))]\n#[allow(unused)]\nmod inner { use crate::a; }\n\
                    #[cfg(test)]\nuse crate::b::{C, D};\n#[cfg(test)]\nfn e<F, G>() -> \
                    crate::h::I<F, G> { crate::j() }\n\
                    struct K { #[cfg(test)] l: crate::m::N, o: crate::p::Q }\n\
                    #[cfg(not(test))]\nuse crate::r;\n";
        let found = said(&[
            ("lib.rs", root),
            ("only_tests.rs", "use crate::s;"),
            ("inner/t.rs", "use crate::u;"),
        ]);
        assert_eq!(found, ["lib.rs:11 imports p::Q", "lib.rs:13 imports r"]);
    }

    #[test]
    fn texts_are_found_with_their_attribute_and_as_the_program_has_them() {
        let src = tempfile::tempdir().unwrap();
        let text = "//! \"no\"\n#[error(\"a \\\n    \\\"b\\\"\")]\nstruct C;\nfn d() { \
            e(\"f\\n\", 1) } // \"no\"\n#[cfg(test)]\nmod tests { const G: &str = \"no\"; }\n";
        fs::write(src.path().join("lib.rs"), text).unwrap();
        let found: Vec<_> = texts(src.path())
            .into_iter()
            .map(|text| (text.line, text.text, text.attribute))
            .collect();
        assert_eq!(
            found,
            [(2, "a \"b\"".to_owned(), Some("error".to_owned())), (5, "f\n".to_owned(), None)]
        );
    }

    /// Crates that still have circles of files, and how many. It only gets less.
    const CIRCLES: [(&str, usize); 4] = [("bench", 4), ("mvbt", 1), ("testing", 1), ("vfs", 4)];

    #[test]
    fn no_crate_gets_a_circle_of_files() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for path in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let circles = if path.is_dir() { file_circles(&path.join("src")) } else { Vec::new() };
            let known = CIRCLES.iter().find(|(of, _)| *of == name).map_or(0, |(_, known)| *known);
            let text = circles.join("\n\n");
            assert_eq!(circles.len(), known, "{name}: move what they share below both:\n{text}");
        }
    }

    #[test]
    fn a_circle_of_files_is_found_through_names_that_are_handed_on() {
        let src = tempfile::tempdir().unwrap();
        let files = [
            ("a/mod.rs", "mod b;\nmod c;\npub use self::b::B;\nfn d() { c::e(); }"),
            ("a/b.rs", "use super::c::E;"),
            ("a/c.rs", "use crate::a::B;\nuse std::fs;"),
            ("fs.rs", "use crate::a::d;"),
        ];
        for (name, text) in files {
            let path = src.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let expected = "2 files:\na/b.rs:1 imports a::c::E\na/c.rs:1 imports a::B";
        assert_eq!(file_circles(src.path()), [expected]);
    }

    #[test]
    fn a_circle_is_said_with_every_import_of_it() {
        let a_and_b =
            [("a/mod.rs", "use crate::b::X;"), ("a/y.rs", ""), ("b.rs", "\nuse crate::c::Y;")];
        let first = |module: &[String]| module.first().cloned();
        let open = house(&[&a_and_b[..], &[("c.rs", "use super::d::Z;")]].concat());
        assert!(circle(&open, first).is_none());
        let closed = house(&[&a_and_b[..], &[("c.rs", "use super::a::y::Z;")]].concat());
        let expected = "a/mod.rs:1 imports b::X\nb.rs:2 imports c::Y\nc.rs:1 imports a::y::Z";
        assert_eq!(circle(&closed, first).as_deref(), Some(expected));
    }
}
