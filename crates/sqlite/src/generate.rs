//! Makes the amalgamation with two B-trees. No line of SQLite is changed. The files from `pager.c`
//! to `backup.c` are compiled under other names, by `#define`s around them. Behind them our shim is
//! included, and for each function of the interface a dispatcher: it looks at the tag of an object,
//! and calls the one B-tree or the other. Which functions these are follows from the prototypes in
//! `btree.h` and `pager.h`, and from what the rest of SQLite calls.

use std::collections::HashSet;
use std::fmt::Write;
use std::ops::Range;

/// Interfaces that the shim was written for: a version, and the number of its prototypes.
const KNOWN: [(&str, u64); 2] =
    [("3.40.1", 0xb7e8_b111_3357_5893), ("3.54.1", 0x9fe0_358c_7b59_3e5a)];

/// The shim dispatches these itself.
const BY_HAND: [&str; 8] = [
    "sqlite3BtreeOpen",
    "sqlite3BtreeCursor",
    "sqlite3BtreeCursorSize",
    "sqlite3BtreeCursorZero",
    "sqlite3BtreeCursorHasMoved",
    "sqlite3BtreeCopyFile",
    "sqlite3BtreeTransferRow",
    "sqlite3BtreeInsert",
];

/// The public functions of the region that the shim dispatches. Their prototypes are in its files.
const PUBLIC: [&str; 5] = [
    "sqlite3_backup_init",
    "sqlite3_backup_step",
    "sqlite3_backup_finish",
    "sqlite3_backup_remaining",
    "sqlite3_backup_pagecount",
];

/// Stock functions with one caller, into which the compiler puts them. The shim calls them too.
const INLINE: [&str; 1] = ["sqlite3BtreeCloseCursor"];

/// How a function with another name gets its prototype.
#[derive(PartialEq, Eq)]
enum Declared {
    /// The file defines it, and `sqlite3.h` has the prototype.
    Public,
    /// The file stands before the shim and calls it. The prototype is that of SQLite's function.
    Private,
    /// The file stands behind the shim.
    Behind,
}

/// A file in which a function has another name: how the rest of SQLite reaches the shim.
const ELSEWHERE: [(&str, &str, &str, Declared); 3] = [
    ("btree.c", "sqlite3PagerReadFileheader", "mvReadFileheader", Declared::Private),
    ("memdb.c", "sqlite3_serialize", "mvStockSerialize", Declared::Public),
    ("pragma.c", "sqlite3_file_control", "mvPragmaFileControl", Declared::Behind),
];

/// A function of the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    pub answer: String,
    pub name: String,
    pub arguments: Vec<String>,
}

/// What a header has, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    /// `#if`, `#else`, `#endif`.
    Condition(String),
    Function(Prototype),
}

impl Prototype {
    /// `SQLITE_PRIVATE int sqlite3BtreeNext(BtCursor*, int flags)`. None: it is no function.
    fn parse(statement: &str) -> Option<Prototype> {
        let text = statement.trim().strip_prefix("SQLITE_PRIVATE")?;
        let open = text.find('(')?;
        let close = text.rfind(')')?;
        let words: Vec<&str> = split_words(&text[..open]);
        let (name, answer) = words.split_last()?;
        if !name.starts_with("sqlite3") {
            return None;
        }
        Some(Prototype {
            answer: answer.join(" "),
            name: (*name).to_owned(),
            arguments: split_arguments(&text[open + 1..close]),
        })
    }

    fn normal(&self) -> String {
        format!("{} {}({})", self.answer, self.name, self.arguments.join(","))
    }

    /// The name in one of the B-trees: `mvBtreeNext`, `stockBtreeNext`.
    fn renamed(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.name.trim_start_matches("sqlite3"))
    }

    fn declared(&self, prefix: &str) -> String {
        let (name, arguments) = (self.renamed(prefix), self.arguments.join(", "));
        let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments };
        format!("SQLITE_PRIVATE {} {name}({arguments});\n", self.answer)
    }

    /// The argument that has a tag, and whether it is a cursor.
    fn tagged(&self) -> Option<(usize, bool)> {
        self.arguments.iter().enumerate().find_map(|(index, argument)| {
            let words = split_words(argument);
            let is_pointer = words.iter().filter(|word| **word == "*").count() == 1;
            let is = |name| is_pointer && words.contains(&name);
            match () {
                () if is("BtCursor") => Some((index, true)),
                () if is("Btree") || is("Pager") => Some((index, false)),
                () => None,
            }
        })
    }

    fn is_variadic(&self) -> bool {
        self.arguments.iter().any(|argument| argument == "...")
    }

    fn dispatcher(&self) -> Option<String> {
        let (index, is_cursor) = self.tagged()?;
        let named: Vec<String> =
            self.arguments.iter().enumerate().map(|(at, text)| with_name(text, at)).collect();
        let names: Vec<String> = (0..named.len()).map(|at| format!("a{at}")).collect();
        let (test, inline) = if is_cursor { ("MV_IS_CURSOR", "MV_INLINE ") } else { ("MV_IS", "") };
        let (mv, stock, names) = (self.renamed("mv"), self.renamed("stock"), names.join(", "));
        let (answer, named) = (&self.answer, named.join(", "));
        let head = format!("{inline}SQLITE_PRIVATE {answer} {}({named})", self.name);
        Some(match self.answer.as_str() {
            "void" => format!(
                "{head}{{\n  if( {test}(a{index}) ) {mv}({names}); else {stock}({names});\n}}\n"
            ),
            _ => format!(
                "{head}{{\n  return {test}(a{index}) ? {mv}({names}) : {stock}({names});\n}}\n"
            ),
        })
    }
}

/// Words and stars.
fn split_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = match is_word(first) {
            true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}

fn split_arguments(text: &str) -> Vec<String> {
    let (mut arguments, mut depth, mut one) = (Vec::new(), 0, String::new());
    for c in text.chars() {
        match c {
            ',' if depth == 0 => {
                arguments.push(std::mem::take(&mut one));
                continue;
            }
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        one.push(c);
    }
    arguments.push(one);
    let spaced = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let arguments = arguments.into_iter().map(spaced);
    arguments.filter(|one| !one.is_empty() && one != "void").collect()
}

/// An argument with a name of ours, in the place of its own, if it has one.
fn with_name(argument: &str, index: usize) -> String {
    if let Some((before, behind)) = argument.split_once("(*") {
        let behind = behind.trim_start_matches(|c: char| c != ')');
        return format!("{before}(*a{index}{behind}");
    }
    let words = split_words(argument);
    let is_type = |word: &str| ["int", "char", "void", "unsigned", "long", "*"].contains(&word);
    let types = words.iter().filter(|word| !["const", "struct"].contains(word)).count();
    let last = words.last().copied().unwrap_or_default();
    let is_named = types > 1 && !is_type(last);
    let kept = if is_named { words.len() - 1 } else { words.len() };
    format!("{} a{index}", words[..kept].join(" "))
}

/// The text with a blank in the place of each comment. Line ends stay.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"', '\'']) {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        let length = match from.as_bytes() {
            [b'/', b'*', ..] => from[2..].find("*/").map_or(from.len(), |end| end + 4),
            [b'/', b'/', ..] => from.find('\n').unwrap_or(from.len()),
            [quote @ (b'"' | b'\''), ..] => literal_length(from, *quote),
            _ => 1,
        };
        let (part, after) = from.split_at(length);
        match part.starts_with("/*") || part.starts_with("//") {
            true => plain.extend(std::iter::once(' ').chain(part.chars().filter(|c| *c == '\n'))),
            false => plain.push_str(part),
        }
        rest = after;
    }
    plain + rest
}

fn literal_length(text: &str, quote: u8) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != quote && bytes[at] != b'\n' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// What a header says, without its include guard.
fn items(header: &str) -> Vec<Item> {
    let (mut items, mut statement, mut is_guarded) = (Vec::new(), String::new(), false);
    let plain = without_comments(header).replace("\\\n", " ");
    for line in plain.lines() {
        let line = line.trim();
        if let Some(directive) = line.strip_prefix('#') {
            let directive = directive.trim();
            let is_condition = ["if", "el", "endif"].iter().any(|one| directive.starts_with(one));
            let is_guard = directive.starts_with("ifndef SQLITE_") && directive.ends_with("_H");
            match is_guard {
                true => is_guarded = true,
                false if is_condition => items.push(Item::Condition(format!("#{directive}\n"))),
                false => {}
            }
            continue;
        }
        for c in line.chars() {
            if c == ';' {
                items.extend(Prototype::parse(&statement).map(Item::Function));
                statement.clear();
            } else {
                statement.push(c);
            }
        }
        statement.push(' ');
    }
    if is_guarded && let Some(Item::Condition(_)) = items.last() {
        items.pop();
    }
    items
}

/// Where a file of SQLite stands in the amalgamation, with the lines that say so.
fn file(source: &str, name: &str) -> Result<Range<usize>, String> {
    let line_with = |mark: String| {
        let at = source.find(&mark).ok_or(format!("it has no line with \"{mark}\""))?;
        let from = source[..at].rfind('\n').map_or(0, |end| end + 1);
        let to = source[at..].find('\n').map_or(source.len(), |end| at + end + 1);
        Ok::<_, String>(from..to)
    };
    let (begin, end) =
        (line_with(format!(" Begin file {name} *"))?, line_with(format!(" End of {name} *"))?);
    match begin.start < end.end {
        true => Ok(begin.start..end.end),
        false => Err(format!("{name} ends before it begins")),
    }
}

fn version(source: &str) -> Option<&str> {
    let (_, rest) = source.split_once("#define SQLITE_VERSION ")?;
    rest.split('"').nth(1)
}

/// FNV-1a.
fn number_of(prototypes: &[&Prototype]) -> u64 {
    let mut texts: Vec<String> = prototypes.iter().map(|one| one.normal()).collect();
    texts.sort();
    texts.dedup();
    texts.join("\n").bytes().fold(0xcbf2_9ce4_8422_2325, |number, byte| {
        (number ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The amalgamation with both B-trees. `shim`: the file that is included.
pub fn generate(source: &str, shim: &str) -> Result<String, String> {
    let version = version(source).ok_or("it has no SQLITE_VERSION")?;
    let failed = |what: String| format!("SQLite {version}: {what}");
    let place = |name| file(source, name).map_err(failed);
    let region = place("pager.c")?.start..place("backup.c")?.end;
    let headers = [place("pager.h")?, place("btree.h")?];

    let mut items: Vec<Item> =
        headers.iter().flat_map(|header| items(&source[header.clone()])).collect();
    let used = used_outside(source, &headers, &region);
    items.retain(|item| match item {
        Item::Condition(_) => true,
        Item::Function(one) => {
            let is_ours = BY_HAND.contains(&one.name.as_str()) || one.tagged().is_some();
            used.contains(one.name.as_str()) && is_ours && !one.is_variadic()
        }
    });
    let mut seen = HashSet::new();
    items.retain(|item| match item {
        Item::Condition(_) => true,
        Item::Function(one) => seen.insert(one.name.clone()),
    });

    let functions = items.iter().filter_map(|item| match item {
        Item::Function(one) => Some(one),
        Item::Condition(_) => None,
    });
    let functions: Vec<&Prototype> = functions.collect();
    let number = number_of(&functions);
    if !KNOWN.iter().any(|known| known.1 == number) {
        let versions: Vec<&str> = KNOWN.iter().map(|known| known.0).collect();
        return Err(failed(format!(
            "its B-tree has {} functions with prototypes that the shim does not know \
             ({number:#x}); it knows those of {}",
            functions.len(),
            versions.join(" and ")
        )));
    }

    let mut before =
        "/* Generated: the stock B-tree gets other names. */\n#include \"inline.h\"\n".to_owned();
    let mut behind = "/* Generated: its end. */\n".to_owned();
    for item in &items {
        match item {
            Item::Condition(line) => {
                before.push_str(line);
                behind.push_str(line);
            }
            // Under its condition: otherwise the header may have a macro of this name.
            Item::Function(one) => {
                let _ = writeln!(before, "#define {} {}", one.name, one.renamed("stock"));
                if INLINE.contains(&one.name.as_str()) {
                    before.push_str("MV_INLINE ");
                }
                before.push_str(&one.declared("stock"));
                let _ = writeln!(behind, "#undef {}", one.name);
                if !BY_HAND.contains(&one.name.as_str()) {
                    behind.push_str("MV_NOINLINE ");
                    behind.push_str(&one.declared("mv"));
                }
            }
        }
    }
    for name in PUBLIC {
        let stock = format!("stock{}", name.trim_start_matches("sqlite3"));
        let _ = writeln!(before, "#define {name} {stock}");
        let _ = writeln!(behind, "#undef {name}");
        before.push_str(&public_prototype(source, name, &stock).map_err(failed)?);
    }
    let _ = writeln!(behind, "#include \"{shim}\"");
    for item in &items {
        match item {
            Item::Condition(line) => behind.push_str(line),
            Item::Function(one) if BY_HAND.contains(&one.name.as_str()) => {}
            Item::Function(one) => behind.push_str(&one.dispatcher().unwrap_or_default()),
        }
    }

    let mut parts = vec![(region.start, before), (region.end, behind)];
    for (file, name, ours, declared) in ELSEWHERE {
        let place = place(file)?;
        let mut before = format!("#define {name} {ours}\n");
        let prototype = match declared {
            Declared::Public => public_prototype(source, name, ours),
            Declared::Private => prototype(source, "SQLITE_PRIVATE", name, ours),
            Declared::Behind => Ok(String::new()),
        };
        before.push_str(&prototype.map_err(failed)?);
        parts.push((place.start, before));
        parts.push((place.end, format!("#undef {name}\n")));
    }
    parts.sort_by_key(|part| part.0);
    let (mut made, mut from) = (String::with_capacity(source.len() + (1 << 17)), 0);
    for (at, part) in parts {
        made.push_str(&source[from..at]);
        made.push_str(&part);
        from = at;
    }
    made.push_str(&source[from..]);
    Ok(made)
}

/// A public function as `sqlite3.h` has it, with the other name and for this file alone.
fn public_prototype(source: &str, name: &str, stock: &str) -> Result<String, String> {
    Ok(prototype(source, "SQLITE_API", name, stock)?.replacen("SQLITE_API", "static", 1))
}

/// The first declaration of a function that begins with `kind`, with the other name.
fn prototype(source: &str, kind: &str, name: &str, other: &str) -> Result<String, String> {
    let mark = format!("{name}(");
    let starts = source.match_indices(&mark).map(|(at, _)| {
        let line = source[..at].rfind('\n').map_or(0, |end| end + 1);
        &source[line..]
    });
    let mut starts = starts.filter(|text| text.starts_with(kind));
    let text = starts.next().ok_or(format!("it has no prototype of {name}"))?;
    let end = text.find(';').ok_or(format!("the prototype of {name} has no end"))?;
    let text = without_comments(&text[..=end]);
    Ok(text.replacen(name, other, 1) + "\n")
}

/// All words of what is neither in the headers nor in the region.
fn used_outside(source: &str, headers: &[Range<usize>], region: &Range<usize>) -> HashSet<String> {
    let mut gaps: Vec<Range<usize>> = headers.to_vec();
    gaps.push(region.clone());
    gaps.sort_by_key(|gap| gap.start);
    let (mut used, mut from) = (HashSet::new(), 0);
    for to in gaps.iter().map(|gap| gap.start).chain([source.len()]) {
        let plain = without_comments(&source[from..to]);
        let words = plain.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        used.extend(words.filter(|word| word.starts_with("sqlite3")).map(str::to_owned));
        from = gaps.iter().find(|gap| gap.start == to).map_or(to, |gap| gap.end);
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Prototype {
        Prototype::parse(text).unwrap()
    }

    #[test]
    fn a_dispatcher_follows_from_a_prototype() {
        let one = parsed("SQLITE_PRIVATE int sqlite3BtreeNext(BtCursor*, int flags)");
        let made = one.dispatcher().unwrap();
        assert_eq!(
            made,
            "MV_INLINE SQLITE_PRIVATE int sqlite3BtreeNext(BtCursor * a0, int a1){\n  return \
             MV_IS_CURSOR(a0) ? mvBtreeNext(a0, a1) : stockBtreeNext(a0, a1);\n}\n"
        );
        let one = parsed("SQLITE_PRIVATE   void  sqlite3PagerShrink(Pager*)");
        assert!(
            one.dispatcher().unwrap().contains("mvPagerShrink(a0); else stockPagerShrink(a0);")
        );
        let one = parsed("SQLITE_PRIVATE void *sqlite3PagerGetData(DbPage *)");
        assert_eq!(one.dispatcher(), None);
        let one = parsed("SQLITE_PRIVATE int sqlite3BtreeOpen(sqlite3_vfs *v, Btree **pp)");
        assert_eq!(one.tagged(), None, "what is opened has no tag yet");
    }

    #[test]
    fn arguments_get_names_of_ours() {
        for (argument, named) in [
            ("int", "int a7"),
            ("unsigned int mask", "unsigned int a7"),
            ("unsigned", "unsigned a7"),
            ("Pgno", "Pgno a7"),
            ("u32 offset", "u32 a7"),
            ("char **pzOut", "char * * a7"),
            ("const char*", "const char * a7"),
            ("struct KeyInfo*", "struct KeyInfo * a7"),
            ("const BtreePayload *pPayload", "const BtreePayload * a7"),
            ("void(*)(void *)", "void(*a7)(void *)"),
            ("int(*xBusy)(void *)", "int(*a7)(void *)"),
        ] {
            assert_eq!(with_name(argument, 7), named);
        }
    }

    #[test]
    fn conditions_stay_around_functions_and_the_guard_goes() {
        let header = "#ifndef SQLITE_X_H\n#define SQLITE_X_H\n/* a; b */\n# ifdef A\n\
                      SQLITE_PRIVATE int sqlite3BtreeX(\n  Btree*, /* ; */\n  int\n);\n#endif\n\
                      struct A { int b; };\n#endif\n";
        let function = parsed("SQLITE_PRIVATE int sqlite3BtreeX(Btree*, int)");
        assert_eq!(
            items(header),
            [
                Item::Condition("#ifdef A\n".to_owned()),
                Item::Function(function),
                Item::Condition("#endif\n".to_owned())
            ]
        );
    }

    #[test]
    fn comments_go_and_literals_stay() {
        assert_eq!(without_comments("a/* b\n */c'\"'\"/*\"// d\ne"), "a \nc'\"'\"/*\" \ne");
        assert_eq!(without_comments("a / b"), "a / b");
    }

    #[test]
    fn an_unknown_interface_is_refused_with_its_version() {
        let source = "#define SQLITE_VERSION \"9.9.9\"\n/** Begin file pager.h **/\n\
                      /** End of pager.h **/\n/** Begin file btree.h **/\n\
                      SQLITE_PRIVATE int sqlite3BtreeNew(Btree*);\n/** End of btree.h **/\n\
                      /** Begin file pager.c **/\n/** End of pager.c **/\n\
                      /** Begin file backup.c **/\n/** End of backup.c **/\nsqlite3BtreeNew(p)\n";
        let said = generate(source, "shim.c").unwrap_err();
        assert!(said.starts_with("SQLite 9.9.9: its B-tree has 1 functions"), "{said}");
        let said = generate(&source.replace("Begin file backup.c", ""), "shim.c").unwrap_err();
        assert!(said.contains("it has no line with \" Begin file backup.c *\""), "{said}");
    }
}
