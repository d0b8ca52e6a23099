//! How Oneflush is switched on, and off again, by language.

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
    /// Lines of at most 80 columns. None: the strategy is for the reader to choose.
    pub fn how(self, strategy: Option<StrategyKind>) -> String {
        let name = strategy.unwrap_or(StrategyKind::Plain).name();
        let lines: &[&str] = match self {
            Language::Any => &[
                "oneflush run --strategy NAME -- PROGRAM ARGUMENTS…",
                "# for a program that links libsqlite3.so, as python3 does. Others load the",
                "# extension: oneflush try --language python|node|ruby|go|java|rust|c",
            ],
            Language::Python => &[
                "pip install oneflush",
                "db = oneflush.connect(\"app.db\", strategy=\"NAME\")   # import oneflush",
                "# where a library opens the database, before it does:",
                "oneflush.enable(default=True, strategy=\"NAME\")",
            ],
            Language::Node => &[
                "npm install oneflush",
                "const { load } = require(\"oneflush\");",
                "load(Database, { default: true, strategy: \"NAME\" });",
                "const db = new Database(\"app.db\");   // better-sqlite3; also node:sqlite",
            ],
            Language::Ruby => &[
                "gem install oneflush",
                "Oneflush.load(SQLite3::Database.new(\":memory:\"))   # before others are opened",
                "# in the environment: ONEFLUSH_DEFAULT=1 ONEFLUSH_STRATEGY=NAME",
            ],
            Language::Go => &[
                "err := oneflush.Register(\"sqlite3_oneflush\", oneflush.Title)",
                "db, err := sql.Open(\"sqlite3_oneflush\", \"app.db\")   // mattn/go-sqlite3",
                "// drivers in pure Go (modernc.org/sqlite) cannot load an extension",
            ],
            Language::Java => &[
                "// sqlite-jdbc",
                "DataSource source = Oneflush.dataSource(\"app.db\", Strategy.UPPER);",
            ],
            Language::Rust => &[
                "oneflush_vfs::register()?;   // rusqlite, sqlx or diesel",
                "let db = Connection::open(\"file:app.db?vfs=oneflush&strategy=NAME\")?;",
            ],
            Language::C => &[
                "oneflush_register();   /* oneflush.h, liboneflush.a */",
                "sqlite3_open_v2(\"file:app.db?vfs=oneflush&strategy=NAME\", &db,",
                "    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, 0);",
            ],
        };
        let title = name[..1].to_uppercase() + &name[1..];
        let line = |line: &&str| {
            line.replace("NAME", name)
                .replace("Title", &title)
                .replace("UPPER", &name.to_uppercase())
        };
        lines.iter().map(line).collect::<Vec<_>>().join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_its_lines_for_every_strategy_in_80_columns() {
        for language in Language::value_variants() {
            for strategy in StrategyKind::ALL {
                let text = language.how(Some(strategy));
                assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
                assert!(!text.contains("NAME") && !text.contains("UPPER"), "{text}");
                let names = [strategy.name().to_owned(), strategy.name().to_uppercase()];
                let is_named = text.to_lowercase().contains(&names[0]) || text.contains(&names[1]);
                assert!(is_named, "{text}");
            }
        }
    }
}
