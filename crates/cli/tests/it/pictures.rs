//! The pictures of `oneflush bench` in a real browser, in the fonts that people have: no text
//! leaves the picture or touches another text, a bar or a mark. Where there is no Chromium, or a
//! font is missing, a test says so (`make test` installs them).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::browser::Browser;
use crate::common::{Sandbox, stderr};

/// The ones of most Linux systems; Liberation Sans is as wide as Arial and Helvetica, DejaVu Sans
/// as Verdana.
const FONTS: [(&str, &str); 2] =
    [("DejaVu Sans", "fonts-dejavu-core"), ("Liberation Sans", "fonts-liberation")];

/// What is wrong with the picture in the page, as words. The first rectangles are its frame and its
/// ground.
const WRONG: &str = "(() => {
    const picture = document.querySelector('svg');
    const { width, height } = picture.viewBox.baseVal;
    const texts = [...picture.querySelectorAll('text')];
    const boxes = texts.map((text) => ({ what: text.textContent, ...sides(text.getBBox()) }));
    const marks = [...picture.querySelectorAll('rect')].map((rect) => \
    ({ what: 'a rectangle', ...sides(rect.getBBox()) }))
        .filter((mark) => mark.right - mark.left < width - 3);
    function sides({ x, y, width, height }) {
        // What a font leaves free above and below its letters may touch.
        return { left: x, right: x + width, top: y + height * 0.1, bottom: y + height * 0.9 };
    }
    const wrong = texts.length > 5 ? [] : ['there are no texts'];
    boxes.forEach((box, at) => {
        if (box.left < 0 || box.top < 0 || box.right > width || box.bottom > height) \
        wrong.push(`'${box.what}' leaves the picture`);
        for (const other of [...boxes.slice(at + 1), ...marks])
            if (box.left < other.right && other.left < box.right && box.top < other.bottom && \
            other.top < box.bottom)
                wrong.push(`'${box.what}' touches '${other.what}'`);
    });
    return wrong.join('; ');
})()";

fn is_installed(font: &str) -> bool {
    Command::new("fc-list")
        .arg(format!(":family={font}"))
        .output()
        .is_ok_and(|output| !output.stdout.is_empty())
}

/// What is wrong with a picture in each font.
fn wrong(browser: &mut Browser, sandbox: &Sandbox, picture: &Path) -> Vec<(&'static str, String)> {
    let svg = std::fs::read_to_string(picture).unwrap();
    let (before, rest) = svg.split_once("font-family=\"").expect("the picture names fonts");
    let (_, after) = rest.split_once('"').expect("the list of fonts ends");
    let mut found = Vec::new();
    for (font, package) in FONTS {
        if !is_installed(font) {
            oneflush_testing::skip(format_args!(
                "{font} is not there; scripts/need {package} installs it"
            ));
            continue;
        }
        let page = sandbox.path().join("picture.html");
        let html = format!(
            "<!doctype html><html \
                data-ready=\"yes\"><body>{before}font-family=\"{font}\"{after}</body></html>"
        );
        std::fs::write(&page, html).unwrap();
        browser.open(&page);
        found.push((font, browser.text(WRONG)));
    }
    found
}

#[test]
fn every_text_has_its_room_in_common_fonts() {
    let Some(mut browser) = Browser::start(1280, 900) else { return };
    let sandbox = Sandbox::new();
    let at = |name: &str| sandbox.path().join(name);
    let mut pictures: Vec<PathBuf> = Vec::new();
    let runs: [&[&str]; 3] = [
        &[
            "--modes",
            "wal:sqlite,wal,wal:plain,wal:eager",
            "-t",
            "1,16",
            "-n",
            "160",
            "--rounds",
            "2",
        ],
        &[
            "--modes",
            "delete,truncate,persist,wal-growing:extra,wal:normal:sqlite,memory",
            "-n",
            "40",
            "--rounds",
            "1",
        ],
        &["--workload", "point", "-n", "2000", "--modes", "wal:sqlite,wal:plain", "--rounds", "1"],
    ];
    for (number, run) in runs.into_iter().enumerate() {
        let [plot, latency] = ["plot", "latency"].map(|name| at(&format!("{name}{number}.svg")));
        let mut command = sandbox.oneflush();
        command.arg("bench").args(run).arg("--plot").arg(&plot).arg("--plot-latency").arg(&latency);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        pictures.extend([plot, latency]);
    }
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    let kept = std::fs::read_dir(results).unwrap().map(|entry| entry.unwrap().path());
    let is_picture = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "svg");
    pictures.extend(kept.filter(is_picture));
    for picture in pictures {
        for (font, wrong) in wrong(&mut browser, &sandbox, &picture) {
            assert_eq!(wrong, "", "{} in {font}", picture.display());
        }
    }
}
