//! The page of charts: one SVG with all of them one below the other, or an HTML page with the SVG
//! in it.
//!
//! Invariant: a file that exists is complete. It is written next to its final place and then
//! renamed.

use super::chart::{Area, Chart, FONT, TEXT, said};
use crate::workload::{Result, RunError};
use plotters::prelude::*;
use std::path::{Path, PathBuf};

const WIDTH: u32 = 1000;
/// Of each chart.
const HEIGHT: u32 = 360;
/// Of the title above them, and of each line below it.
const TITLE: u32 = 50;
const LINE: u32 = 20;

/// A file name that says what is to be written; for the command line.
pub fn destination(text: &str) -> std::result::Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if kind(&path).is_none() {
        return Err(format!("expected a file name that ends in .svg or .html, got '{text}'"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            Err(format!("folder {} does not exist", folder.display()))
        }
        _ => Ok(path),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Svg,
    Html,
}

fn kind(path: &Path) -> Option<Kind> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "svg" => Some(Kind::Svg),
        "html" | "htm" => Some(Kind::Html),
        _ => None,
    }
}

/// The text of the page.
pub struct Words {
    /// The name of the page.
    pub title: String,
    /// The run and the machine: lines above the charts.
    pub lines: Vec<String>,
}

/// Writes `charts` to `path`, as its ending says.
pub fn write(path: &Path, words: &Words, charts: &[Chart]) -> Result<()> {
    let text = match kind(path) {
        Some(Kind::Html) => svg(None, charts).map(|svg| html(words, &svg)),
        _ => svg(Some(words), charts),
    };
    put(path, &text.map_err(RunError::new)?)
        .map_err(|e| RunError::new(format!("cannot write {}: {e}", path.display())))
}

fn put(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    std::fs::write(file.path(), text)?;
    // The permissions of any other file that a program writes: only the temporary file is private.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(file.path(), mode)?;
    file.persist(path)?;
    Ok(())
}

/// The charts, one below the other, below the words if they are to be in it.
fn svg(words: Option<&Words>, charts: &[Chart]) -> std::result::Result<String, String> {
    let above = words.map_or(0, |words| TITLE + LINE * words.lines.len() as u32);
    let size = (WIDTH, above + HEIGHT * charts.len() as u32);
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE).map_err(said)?;
        let (top, rest) = area.split_vertically(above);
        if let Some(words) = words {
            head(&top, words)?;
        }
        for (chart, area) in charts.iter().zip(rest.split_evenly((charts.len(), 1))) {
            chart.draw(&area)?;
        }
        area.present().map_err(said)?;
    }
    Ok(text)
}

fn head(area: &Area<'_>, words: &Words) -> std::result::Result<(), String> {
    let title = (FONT, 24).into_font().color(&TEXT);
    area.draw(&Text::new(words.title.clone(), (18, 16), title)).map_err(said)?;
    for (number, line) in (0..).zip(&words.lines) {
        let place = (18, (TITLE + LINE * number) as i32);
        let font = (FONT, 14).into_font().color(&TEXT);
        area.draw(&Text::new(line.clone(), place, font)).map_err(said)?;
    }
    Ok(())
}

fn html(words: &Words, svg: &str) -> String {
    let lines: String =
        words.lines.iter().map(|line| format!("<p>{}</p>\n", escaped(line))).collect();
    let title = escaped(&words.title);
    format!(
        "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>{title}</title>
<style>
body {{ font-family: sans-serif; color: #374151; max-width: {WIDTH}px; margin: 2em auto; padding: 0 1em; }}
h1 {{ font-size: 1.4em; }}
p {{ margin: 0.3em 0; }}
svg {{ width: 100%; height: auto; margin-top: 1em; }}
</style>
</head>
<body>
<h1>{title}</h1>
{lines}{svg}</body>
</html>
"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::chart::{Axis, Curve};
    use super::*;

    #[test]
    fn files_are_named_by_what_they_are() {
        assert!(destination("a.svg").is_ok() && destination("a.HTML").is_ok());
        assert!(destination("a.png").unwrap_err().contains(".svg or .html"));
        assert!(
            destination("/nowhere/a.svg").unwrap_err().contains("folder /nowhere does not exist")
        );
    }

    #[test]
    fn a_page_has_its_words_and_its_curves() {
        let folder = tempfile::tempdir().unwrap();
        let curve = Curve { name: "all".to_owned(), points: vec![(0.0, 10.0), (0.9, 1e6)] };
        let empty = Curve { name: "none".to_owned(), points: Vec::new() };
        let chart = |curves| Chart {
            title: "Latency".to_owned(),
            axes: (Axis::Percentiles, Axis::Latency),
            until: None,
            curves,
        };
        let words = Words { title: "a < b".to_owned(), lines: vec!["here & now".to_owned()] };
        let path = folder.path().join("page.html");
        write(&path, &words, &[chart(vec![curve]), chart(vec![empty])]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for wanted in ["a &lt; b", "here &amp; now", "<polyline", "</svg>", "90 %"] {
            assert!(text.contains(wanted), "no {wanted} in {text}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
