//! How Oneflush is switched on, by language.
//!
//! What stands here is executed. The first line installs, the others are a program. The bare places
//! run those of Python, Node and Ruby (`packages/*/check`) and of C and Rust (`packages/linked`),
//! `packages/{go,java}/test` those of Go and Java.

use clap::ValueEnum;
use oneflush_vfs::StrategyKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// Any program that links libsqlite3.so
    Any,
    Python,
    Node,
    Ruby,
    Go,
    Java,
    Rust,
    C,
}

impl Language {
    /// Lines of at most 78 columns. None: the strategy is for the reader to choose.
    pub fn how(self, strategy: Option<StrategyKind>) -> String {
        let strategy = strategy.unwrap_or(StrategyKind::Plain);
        let line = |line: &&str| {
            line.replace("{name}", strategy.name())
                .replace("{NAME}", &strategy.name().to_uppercase())
                .replace("{Name}", in_go(strategy))
                .replace("{version}", env!("CARGO_PKG_VERSION"))
        };
        self.lines().iter().map(line).collect::<Vec<_>>().join("\n") + "\n"
    }

    fn lines(self) -> &'static [&'static str] {
        match self {
            Language::Any => &[
                "oneflush run --strategy {name} -- PROGRAM ARGUMENTS…",
                "# for a program that links libsqlite3.so, as python3 does. Others load the",
                "# extension: oneflush try --language python|node|ruby|go|java|rust|c",
            ],
            Language::Python => &[
                "pip install oneflush",
                "import oneflush",
                "db = oneflush.connect(\"app.db\", strategy=\"{name}\")   # a sqlite3.Connection",
                "# where a library opens the database, before it does:",
                "oneflush.enable(strategy=\"{name}\")",
            ],
            Language::Node => &[
                "npm install oneflush",
                "const Database = require('better-sqlite3');   // or node:sqlite's DatabaseSync",
                "const { load } = require('oneflush');",
                "load(Database, { default: true, strategy: '{name}' });",
                "const db = new Database('app.db');            // all opened from here on",
            ],
            Language::Ruby => &[
                "gem install oneflush",
                "require \"oneflush\"",
                "db = Oneflush.open(\"app.db\", strategy: :{name})   # a SQLite3::Database",
                "# where a library opens the database, before it does (Rails: an initializer):",
                "Oneflush.enable(default: true, strategy: :{name})",
            ],
            Language::Go => &[
                "go get github.com/oneflush/oneflush-go",
                "import \"github.com/oneflush/oneflush-go\"   // for mattn/go-sqlite3",
                "if err := oneflush.Register(\"sqlite3_oneflush\", oneflush.{Name}); err != nil {",
                "    log.Fatal(err)",
                "}",
                "db, err := sql.Open(\"sqlite3_oneflush\", \"app.db\")",
                "// drivers in pure Go (modernc.org/sqlite) cannot load an extension",
            ],
            Language::Java => &[
                "// io.github.oneflush:oneflush:{version}, by Maven or Gradle; for sqlite-jdbc",
                "import io.github.oneflush.Oneflush;",
                "import io.github.oneflush.Strategy;",
                "import org.sqlite.SQLiteDataSource;",
                "SQLiteDataSource source = Oneflush.dataSource(\"app.db\", Strategy.{NAME});",
                "// where a framework opens the database: jdbc:sqlite:app.db?strategy={name},",
                "// with the driver io.github.oneflush.OneflushDriver",
            ],
            Language::Rust => &[
                "cargo add oneflush-vfs",
                "use rusqlite::Connection;     // sqlx and diesel take the VFS by its name, too",
                "oneflush_vfs::register()?;    // once, before a database is opened",
                "let db = Connection::open(\"file:app.db?vfs=oneflush&strategy={name}\")?;",
            ],
            Language::C => &[
                "cc app.c sqlite3.c liboneflush.a -lpthread -ldl -lm",
                "#include \"oneflush.h\"",
                "oneflush_register();          /* once, before a database is opened */",
                "sqlite3_open_v2(\"file:app.db?vfs=oneflush&strategy={name}\", &db,",
                "    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, 0);",
            ],
        }
    }
}

/// What the Go module calls a strategy.
fn in_go(strategy: StrategyKind) -> &'static str {
    match strategy {
        StrategyKind::Stock => "Stock",
        StrategyKind::Plain => "Plain",
        StrategyKind::Eager => "Eager",
        StrategyKind::Waldio => "Waldio",
        StrategyKind::Maw => "MAW",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_language_has_its_lines_for_every_strategy_in_78_columns() {
        for language in Language::value_variants() {
            for strategy in StrategyKind::ALL {
                let text = language.how(Some(strategy));
                // Behind two more columns they stand below a trial.
                assert!(text.lines().all(|line| line.chars().count() <= 78), "{text}");
                assert!(!text.contains("ame}"), "{text}");
                let lower = text.to_lowercase();
                assert!(lower.contains(strategy.name()), "{text}");
            }
        }
    }

    /// Where the lines of a language stand as well: pages whose blocks are run, a header.
    const PAGES: &[(Language, &[&str])] = &[
        (Language::Go, &["packages/go/README.md", "packages/go/book.md"]),
        (Language::Java, &["packages/java/book.md"]),
        (Language::Rust, &["crates/vfs/README.md", "README.md"]),
        (Language::C, &["packages/c/oneflush.h", "packages/linked/app.c"]),
    ];

    #[test]
    fn the_lines_of_each_language_stand_in_its_pages_with_one_strategy_or_another() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (language, pages) in PAGES {
            let text =
                pages.iter().map(|page| std::fs::read_to_string(project.join(page)).unwrap());
            let page = text.collect::<String>();
            let renderings = StrategyKind::ALL.map(|strategy| language.how(Some(strategy)));
            for at in 0..language.lines().len() {
                let mut lines = renderings.iter().filter_map(|text| text.lines().nth(at));
                let is_there = lines.any(|line| code(line).is_empty() || page.contains(code(line)));
                assert!(is_there, "{language:?}: in {pages:?} is no {:?}", language.lines()[at]);
            }
        }
    }

    /// The line without its comment, and without the word that Go's blocks have once for all.
    fn code(line: &str) -> &str {
        let ends = ["   //", "   #", "   /*"].map(|begin| line.find(begin).unwrap_or(line.len()));
        let line = line[..ends.into_iter().min().unwrap()].trim();
        let is_comment = line.starts_with("//") || line.starts_with("# ");
        let line = if is_comment { "" } else { line };
        line.strip_prefix("import ").filter(|rest| rest.starts_with('"')).unwrap_or(line)
    }
}
