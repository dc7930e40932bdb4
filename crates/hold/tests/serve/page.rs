//! A page in a real browser: its parts arrive in the form that the browser needs, or it would not
//! run.

use super::Serving;
use crate::support::{TestDir, browser};
use std::fs;

/// A picture of one point.
const PICTURE: &str = "<svg xmlns='http://www.w3.org/2000/svg' width='31' height='17'/>";

#[test]
fn a_browser_shows_a_page_of_many_parts() {
    let Some(program) = browser::program() else { return };
    let test_dir = TestDir::new();
    fs::create_dir_all(test_dir.path("public/parts of it")).expect("a directory");
    // A module only runs if its type is right; a sheet only counts with its own; so does a picture.
    let page = "<!doctype html><link rel=stylesheet href='parts%20of%20it/style.css'>\
                <p id=said>nothing</p><img id=seen src='parts%20of%20it/picture.svg'>\
                <script type=module src='parts%20of%20it/main.js'></script>";
    let script = "import { word } from './word.js';\n\
        const seen = document.getElementById('seen'); await seen.decode();\n\
        const part = await fetch('data.json', { headers: { Range: 'bytes=1-5' } });\n\
        const color = getComputedStyle(document.getElementById('said')).color;\n\
        const said = [word, seen.naturalWidth, part.status, await part.text(), color];\n\
        document.getElementById('said').textContent = said.join('|');";
    test_dir.file("public/index.html", page);
    test_dir.file("public/parts of it/main.js", script);
    test_dir.file("public/parts of it/word.js", "export const word = 'modules';");
    test_dir.file("public/parts of it/style.css", "p { color: rgb(1, 2, 3) }");
    test_dir.file("public/parts of it/picture.svg", PICTURE);
    test_dir.file("public/data.json", "[12345]");
    let serving = Serving::start(&test_dir, "public", &["--workers", "2"]);
    let url = format!("http://127.0.0.1:{}/", serving.port);
    let document = browser::document(program, &test_dir.path("profile"), &url);
    assert!(document.contains("modules|31|206|12345|rgb(1, 2, 3)"), "{document}");
    serving.stop();
}
