//! The project's documents as pages of Markdown: their links, their anchors, and their prose.
//!
//! A page is read by `pulldown-cmark`, so code blocks, tables and HTML are known as such. Anchors
//! are made as GitHub and mdBook make them from a heading: lower case, punctuation left out,
//! spaces as hyphens, repeated ones numbered.

use std::collections::HashMap;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A paragraph, a heading, an item or a cell: its text without markup and code, on one line.
pub struct Passage {
    pub line: usize,
    pub text: String,
    pub heading: bool,
}

pub struct Link {
    pub line: usize,
    pub target: String,
}

#[derive(Default)]
pub struct Page {
    pub links: Vec<Link>,
    pub anchors: Vec<String>,
    pub passages: Vec<Passage>,
    /// Lines that no width binds: code, tables, HTML.
    pub unbound: Vec<Range<usize>>,
}

impl Page {
    pub fn read(text: &str) -> Page {
        let mut reader = Reader { text, page: Page::default(), open: None, slug: String::new() };
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            reader.take(event, &range);
        }
        reader.close();
        number_repeated(&mut reader.page.anchors);
        reader.page
    }
}

struct Reader<'a> {
    text: &'a str,
    page: Page,
    open: Option<Passage>,
    /// The text of the heading under way, with its code.
    slug: String,
}

impl Reader<'_> {
    fn take(&mut self, event: Event<'_>, range: &Range<usize>) {
        match event {
            Event::Start(tag) => self.start(&tag, range),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.add(&text, &text),
            Event::Code(code) => self.add("`code`", &code),
            Event::SoftBreak | Event::HardBreak => self.add(" ", " "),
            Event::Html(_) => self.unbind(range),
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>, range: &Range<usize>) {
        let line = self.line(range.start);
        match tag {
            Tag::CodeBlock(_) => {
                self.close();
                self.unbind(range);
            }
            Tag::Table(_) => self.unbind(range),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.page.links.push(Link { line, target: dest_url.to_string() });
            }
            Tag::Paragraph | Tag::Item | Tag::TableCell | Tag::Heading { .. } => {
                self.close();
                self.slug.clear();
                let heading = matches!(tag, Tag::Heading { .. });
                self.open = Some(Passage { line, text: String::new(), heading });
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.page.anchors.push(anchor(&self.slug));
                self.close();
            }
            TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell | TagEnd::CodeBlock => {
                self.close();
            }
            _ => {}
        }
    }

    fn add(&mut self, shown: &str, slug: &str) {
        if let Some(passage) = &mut self.open {
            passage.text.push_str(shown);
            self.slug.push_str(slug);
        }
    }

    fn close(&mut self) {
        self.page.passages.extend(self.open.take().filter(|passage| !passage.text.is_empty()));
    }

    fn unbind(&mut self, range: &Range<usize>) {
        let last = self.line(range.end.saturating_sub(1));
        self.page.unbound.push(self.line(range.start)..last + 1);
    }

    fn line(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn number_repeated(anchors: &mut [String]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for anchor in anchors {
        let count = seen.entry(anchor.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            *anchor = format!("{anchor}-{}", *count - 1);
        }
    }
}
