//! A headless Chromium and one page in it, driven by the DevTools protocol over a pipe: messages
//! are JSON, each ended by a zero byte.
//!
//! The browser reads descriptor 3 and writes 4, which a shell makes of its standard input and
//! output.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use oneflush_testing::Running;
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(120);

pub struct Browser {
    child: Running,
    to: ChildStdin,
    from: Receiver<Value>,
    session: String,
    next_id: u64,
    /// Errors and warnings of the page's console, and exceptions that nobody caught.
    pub complaints: Vec<String>,
    /// Addresses that were asked for.
    pub requests: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// `None`, and a word on stderr, where there is no Chromium.
    pub fn start(width: u32, height: u32) -> Option<Browser> {
        let is_there = |name: &&str| {
            Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
        };
        let Some(program) =
            ["chromium", "chromium-browser", "google-chrome"].into_iter().find(is_there)
        else {
            oneflush_testing::skip("there is no Chromium; scripts/need chromium installs it");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 >/dev/null 2>&1 </dev/null", program])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--remote-debugging-pipe", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("--window-size={width},{height}"))
            .env("TMPDIR", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = Running::start(&mut command);
        let to = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (send, from) = channel();
        thread::spawn(move || {
            loop {
                let mut message = Vec::new();
                if output.read_until(0, &mut message).unwrap_or(0) == 0 {
                    return;
                }
                message.pop();
                if send
                    .send(serde_json::from_slice(&message).expect("the protocol is JSON"))
                    .is_err()
                {
                    return;
                }
            }
        });
        let (complaints, requests) = (Vec::new(), Vec::new());
        let session = String::new();
        let mut browser = Browser {
            child,
            to,
            from,
            session,
            next_id: 0,
            complaints,
            requests,
            _profile: profile,
        };
        let target =
            browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached =
            browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        // Of the page's own time, whatever else wants the processors.
        browser.call("Performance.enable", json!({"timeDomain": "threadTicks"}));
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", size);
        Some(browser)
    }

    /// Opens a file and waits until its script has run.
    pub fn open(&mut self, path: &Path) {
        self.visit(
            &format!("file://{}", path.display()),
            "document.documentElement?.dataset.ready === 'yes'",
        );
        // And until it is drawn.
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() \
            => done(1))))",
        );
    }

    /// How long the page's thread has worked. Times by the clock belong to the machine and to what
    /// else runs there.
    pub fn worked(&mut self) -> Duration {
        let metrics = self.call("Performance.getMetrics", json!({}));
        let all = metrics["metrics"].as_array().expect("metrics");
        let of_tasks =
            all.iter().find(|metric| metric["name"] == "TaskDuration").expect("the time of tasks");
        Duration::from_secs_f64(of_tasks["value"].as_f64().expect("seconds"))
    }

    /// Opens an address and waits until an expression is true there.
    pub fn visit(&mut self, address: &str, ready: &str) {
        let begun = Instant::now();
        self.call("Page.navigate", json!({"url": address}));
        // Between two documents there may be none, or nothing to ask.
        let ready = json!({"expression": ready});
        while self
            .answer("Runtime.evaluate", ready.clone())
            .is_none_or(|answer| answer["result"]["value"] != true)
        {
            assert!(
                begun.elapsed() < PATIENCE,
                "{address} never became ready: {:?}",
                self.complaints
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The value of an expression; a promise is waited for.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    pub fn number(&mut self, expression: &str) -> f64 {
        self.evaluate(expression).as_f64().unwrap_or_else(|| panic!("{expression} is no number"))
    }

    pub fn text(&mut self, expression: &str) -> String {
        self.evaluate(expression)
            .as_str()
            .unwrap_or_else(|| panic!("{expression} is no text"))
            .to_owned()
    }

    /// A real press, move and release of the mouse, at places of the window.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        let mut mouse = |kind: &str, (x, y): (f64, f64), buttons: u32| {
            let button = if kind == "mouseMoved" && buttons == 0 { "none" } else { "left" };
            let event = json!({
                "type": kind, "x": x, "y": y,
                "button": button, "buttons": buttons, "clickCount": 1
            });
            self.call("Input.dispatchMouseEvent", event);
        };
        mouse("mouseMoved", from, 0);
        mouse("mousePressed", from, 1);
        mouse("mouseMoved", ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0), 1);
        mouse("mouseMoved", to, 1);
        mouse("mouseReleased", to, 0);
    }

    pub fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({"type": kind, "key": key}));
        }
    }

    /// As a system that is set to dark or light would have it.
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() \
            => done(1))))",
        );
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.answer(method, parameters).unwrap_or_else(|| panic!("{method} was refused"))
    }

    /// `None`: the browser answers with an error.
    fn answer(&mut self, method: &str, parameters: Value) -> Option<Value> {
        self.next_id += 1;
        let id = self.next_id;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let message = match self.from.recv_timeout(PATIENCE) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => panic!("no answer to {method}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the browser ended at {method}"),
            };
            if message["id"] == json!(id) {
                return message.get("result").cloned();
            }
            self.notice(&message);
        }
    }

    fn notice(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                self.requests
                    .push(parameters["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            "Runtime.exceptionThrown" | "Log.entryAdded" => {
                self.complaints.push(parameters.to_string())
            }
            "Runtime.consoleAPICalled"
                if parameters["type"] == "error" || parameters["type"] == "warning" =>
            {
                self.complaints.push(parameters.to_string());
            }
            _ => {}
        }
    }
}

impl Drop for Browser {
    /// It goes by itself, so that it takes its helpers and files with it; else it is made to.
    fn drop(&mut self) {
        let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
    }
}
