//! A line of a recording of file operations: `thread usec operation arguments`, as Mobigen writes
//! them.
//!
//! ```text
//! 24 6542051 open "/data/data/app/cache/f_1" O_RDWR|O_CREAT|O_LARGEFILE 199
//! 24 6542073 write 199 698
//! 24 20199282 pwrite 142 9472 256
//! 53 46944952 fsync 77 0
//! ```
//!
//! The last word is what the call returned: a descriptor, a number of bytes, 0 or -1.

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub thread: u32,
    /// Since the recording's begin.
    pub at_us: u64,
    pub call: Call,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Open {
        path: String,
        flags: Flags,
        descriptor: Option<u32>,
    },
    Close {
        descriptor: u32,
    },
    Read {
        descriptor: u32,
        /// None: at the descriptor's position.
        offset: Option<u64>,
        /// None: the call failed.
        bytes: Option<u64>,
    },
    Write {
        descriptor: u32,
        offset: Option<u64>,
        bytes: Option<u64>,
    },
    Sync {
        descriptor: u32,
        data_only: bool,
    },
    Fstat {
        descriptor: u32,
    },
    /// `stat`, `lstat` or `access`: all ask for what the inode has.
    Stat {
        path: String,
        exists: bool,
    },
    Unlink {
        path: String,
        done: bool,
    },
    Rename {
        from: String,
        to: String,
        done: bool,
    },
    /// An operation that is not replayed.
    Other {
        name: String,
    },
}

/// Of an open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub reads: bool,
    pub writes: bool,
    pub creates: bool,
    pub exclusive: bool,
    pub truncates: bool,
    pub appends: bool,
    pub directory: bool,
}

impl Flags {
    /// "O_RDWR|O_CREAT|O_LARGEFILE". What has no meaning for a replay is passed over.
    fn parse(text: &str) -> Option<Flags> {
        let mut flags = Flags::default();
        for word in text.split('|') {
            match word {
                "O_RDONLY" => flags.reads = true,
                "O_WRONLY" => flags.writes = true,
                "O_RDWR" => (flags.reads, flags.writes) = (true, true),
                "O_CREAT" => flags.creates = true,
                "O_EXCL" => flags.exclusive = true,
                "O_TRUNC" => flags.truncates = true,
                "O_APPEND" => flags.appends = true,
                "O_DIRECTORY" => flags.directory = true,
                other if other.starts_with("O_") => {}
                _ => return None,
            }
        }
        Some(flags)
    }
}

/// Why a line is none.
pub type Reason = &'static str;

impl Line {
    pub fn parse(text: &str) -> Result<Line, Reason> {
        let mut words = Words { rest: text };
        let thread = words.number("no thread's number at its begin")?;
        let at_us = words.number("no microseconds behind the thread's number")?;
        let name = words.next().ok_or("no operation behind the time")?;
        let call = call(name, &mut words)?;
        Ok(Line { thread, at_us, call })
    }
}

fn call(name: &str, words: &mut Words<'_>) -> Result<Call, Reason> {
    const NO_DESCRIPTOR: Reason = "no descriptor";
    const NO_PATH: Reason = "no path";
    const NO_BYTES: Reason = "no number of bytes";
    const NO_RESULT: Reason = "no result at its end";
    Ok(match name {
        "open" | "openat" | "fopen" => {
            let path = words.path().ok_or(NO_PATH)?;
            let flags = words.next().and_then(Flags::parse).ok_or("no flags such as O_RDWR")?;
            Call::Open { path, flags, descriptor: words.result(NO_RESULT)?.map(|fd| fd as u32) }
        }
        "close" | "fclose" => Call::Close { descriptor: words.number(NO_DESCRIPTOR)? },
        "read" | "fread" | "write" | "fwrite" => {
            let descriptor = words.number(NO_DESCRIPTOR)?;
            transfer(name.ends_with("read"), descriptor, None, words.result(NO_BYTES)?)
        }
        "pread" | "pread64" | "pwrite" | "pwrite64" => {
            let descriptor = words.number(NO_DESCRIPTOR)?;
            let offset = words.number("no offset")?;
            let bytes = words.result(NO_BYTES)?;
            transfer(name.starts_with("pread"), descriptor, Some(offset), bytes)
        }
        "fsync" | "fdatasync" => {
            Call::Sync { descriptor: words.number(NO_DESCRIPTOR)?, data_only: name == "fdatasync" }
        }
        "fstat" | "fstat64" => Call::Fstat { descriptor: words.number(NO_DESCRIPTOR)? },
        "stat" | "stat64" | "lstat" | "lstat64" | "access" => Call::Stat {
            path: words.path().ok_or(NO_PATH)?,
            exists: words.result(NO_RESULT)?.is_some(),
        },
        "unlink" => Call::Unlink {
            path: words.path().ok_or(NO_PATH)?,
            done: words.result(NO_RESULT)?.is_some(),
        },
        "rename" => Call::Rename {
            from: words.path().ok_or(NO_PATH)?,
            to: words.path().ok_or("no second path")?,
            done: words.result(NO_RESULT)?.is_some(),
        },
        other if other.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') => {
            Call::Other { name: other.to_owned() }
        }
        _ => return Err("no operation behind the time"),
    })
}

fn transfer(reads: bool, descriptor: u32, offset: Option<u64>, bytes: Option<u64>) -> Call {
    if reads {
        Call::Read { descriptor, offset, bytes }
    } else {
        Call::Write { descriptor, offset, bytes }
    }
}

/// The words of a line. A path may stand in quotation marks, and then have blanks.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start();
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    fn number<N: std::str::FromStr>(&mut self, reason: Reason) -> Result<N, Reason> {
        self.next().and_then(|word| word.parse().ok()).ok_or(reason)
    }

    /// None: the call failed.
    fn result(&mut self, reason: Reason) -> Result<Option<u64>, Reason> {
        let value: i64 = self.number(reason)?;
        Ok(u64::try_from(value).ok())
    }

    /// Without its quotation marks. Some recordings have but one of the two.
    fn path(&mut self) -> Option<String> {
        let text = self.rest.trim_start();
        let quoted = text.strip_prefix('"').and_then(|text| text.split_once('"'));
        let path = match quoted {
            Some((path, rest)) if rest.is_empty() || rest.starts_with(char::is_whitespace) => {
                self.rest = rest;
                path
            }
            _ => self.next()?,
        };
        let path: String = path.chars().filter(|letter| *letter != '"').collect();
        (!path.is_empty()).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Call {
        Line::parse(text).unwrap().call
    }

    #[test]
    fn lines_of_a_phone_are_understood() {
        assert_eq!(
            Line::parse("53 46944952 fsync 77 0").unwrap(),
            Line {
                thread: 53,
                at_us: 46_944_952,
                call: Call::Sync { descriptor: 77, data_only: false },
            }
        );
        let flags = Flags { reads: true, writes: true, creates: true, ..Flags::default() };
        assert_eq!(
            parsed("16 1 open \"/data/a b.db\" O_RDWR|O_CREAT|O_LARGEFILE 12"),
            Call::Open { path: "/data/a b.db".to_owned(), flags, descriptor: Some(12) }
        );
        assert_eq!(
            parsed("16 1 open NotificationPermissions.db\"/nil O_RDWR|O_CREAT|O_LARGEFILE -1"),
            Call::Open {
                path: "NotificationPermissions.db/nil".to_owned(),
                flags,
                descriptor: None
            }
        );
        let pwrite = Call::Write { descriptor: 142, offset: Some(9472), bytes: Some(256) };
        assert_eq!(parsed("24 20199282 pwrite 142 9472 256"), pwrite);
        let read = Call::Read { descriptor: 229, offset: None, bytes: None };
        assert_eq!(parsed("24 25799752 read 229 -1"), read);
        assert_eq!(parsed("1 2 ioctl 3 4"), Call::Other { name: "ioctl".to_owned() });
    }

    #[test]
    fn what_is_no_line_says_what_is_missing() {
        for (text, reason) in [
            ("hello", "no thread's number at its begin"),
            ("1 x write 3 4", "no microseconds behind the thread's number"),
            ("1 2", "no operation behind the time"),
            ("1 2 SELECT(3)", "no operation behind the time"),
            ("1 2 write 3", "no number of bytes"),
            ("1 2 open /a 3 4", "no flags such as O_RDWR"),
            ("1 2 fsync -1 0", "no descriptor"),
            ("1 2 rename /a", "no second path"),
        ] {
            assert_eq!(Line::parse(text), Err(reason), "{text}");
        }
    }
}
