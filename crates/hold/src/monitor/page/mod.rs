//! The page: complete without a script. The script fetches it again every second and updates the
//! parts that have changed.
//!
//! - [`markup`]: text in HTML, tables
//! - [`chart`]: the last minutes
//! - [`servers`]: file servers; [`contents`]: the contents of the hold

mod chart;
mod contents;
mod markup;
mod servers;

use super::observer::Observer;
use markup::escaped;

pub const CSS: &str = include_str!("page.css");
pub const SCRIPT: &str = include_str!("page.js");

/// The whole page.
///
/// # Errors
/// Those of reading the hold.
pub fn html(observer: &Observer) -> commonhold::Result<String> {
    let inventory = observer.inventory()?;
    let live = observer.live();
    let mut servers = servers::section(&live, &inventory);
    drop(live);
    // The page of a file server always shows that server, whatever happened to it.
    let is_of_server = observer.title != inventory.hold.path.to_string_lossy();
    if is_of_server && servers.is_empty() {
        servers.push_str(servers::NONE);
    }
    let (title, contents) = (escaped(&observer.title), contents::section(&inventory));
    let hold = escaped(&inventory.hold.path.to_string_lossy());
    let path = if is_of_server { format!("<p class=\"path\">{hold}</p>") } else { String::new() };
    Ok(format!(
        "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<title>{title} · hold</title>
<link rel=\"icon\" href=\"{ICON}\">
<link rel=\"stylesheet\" href=\"page.css\">
<script src=\"page.js\" defer></script>
<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>
</head>
<body>
<header>
<h1>{title}</h1>
<p id=\"state\" role=\"status\">state when the page was loaded</p>
{path}
</header>
<main>
{servers}{contents}</main>
<footer>
<p><a href=\"status.json\">status.json</a> <a href=\"/metrics\">metrics</a></p>
</footer>
<div id=\"tip\" hidden></div>
</body>
</html>
"
    ))
}

const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E\
     %3Cpath d='M2 3h12v10H2z' fill='%230f766e'/%3E%3Cpath d='M4 10l3-3 2 2 3-4' fill='none' stroke='%23fff' \
     stroke-width='1.5'/%3E%3C/svg%3E";
