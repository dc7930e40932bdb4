//! Reads Rust source as far as layering needs it: text without comments and literals, tokens, and
//! the paths that begin at the crate root, with `super`, `self` and `use` groups resolved.
//!
//! Invariant: line numbers are those of the file. Macros are read as the tokens they are written
//! with; no path of this project is put together by a macro.

/// One token that matters: a word, a `::`, or any other single character.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Token {
    pub line: usize,
    pub text: String,
}

/// A path from the crate root, such as `["os", "file", "HoldFile"]`.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct CratePath {
    pub line: usize,
    pub segments: Vec<String>,
    /// The name it gets here: its last segment, or what follows `as`.
    pub name: String,
}

/// Replaces comments and the insides of literals by spaces; keeps every line break.
pub fn strip(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_or_comment(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// A text in quotes.
#[derive(Debug, PartialEq, Eq)]
pub struct Literal {
    pub line: usize,
    pub text: String,
}

/// Every string literal of a source text. A line break that a backslash hides is left out.
pub fn literals(text: &str) -> Vec<Literal> {
    let chars: Vec<char> = text.chars().collect();
    let mut out = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < chars.len() {
        let end = literal_or_comment(&chars, at).max(at + 1);
        let piece = &chars[at..end.min(chars.len())];
        if piece.len() > 1 && matches!(piece[0], '"' | 'r') {
            out.push(Literal { line, text: without_hidden_breaks(&piece[1..piece.len() - 1]) });
        }
        line += piece.iter().filter(|&&c| c == '\n').count();
        at = end;
    }
    out
}

fn without_hidden_breaks(inside: &[char]) -> String {
    let text: String = inside.iter().collect();
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |joined, line| joined + line.trim_start())
}

/// The end of the comment or literal that begins at `at`, or `at` if none does.
fn literal_or_comment(chars: &[char], at: usize) -> usize {
    let next = |n: usize| chars.get(at + n).copied().unwrap_or('\0');
    match chars[at] {
        '/' if next(1) == '/' => line_end(chars, at),
        '/' if next(1) == '*' => block_comment_end(chars, at),
        '"' => quoted_end(chars, at + 1, '"'),
        'r' if !inside_word(chars, at) && (next(1) == '"' || next(1) == '#') => {
            raw_string_end(chars, at)
        }
        '\'' if next(1) == '\\' => quoted_end(chars, at + 1, '\''),
        '\'' if next(2) == '\'' => at + 3,
        _ => at,
    }
}

fn inside_word(chars: &[char], at: usize) -> bool {
    // `br"..."` and `cr"..."` are literals whose prefix is one letter before the `r`.
    let before = |n: usize| at.checked_sub(n).map(|i| chars[i]);
    match before(1) {
        Some('b' | 'c') => before(2).is_some_and(is_word),
        Some(c) => is_word(c),
        None => false,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|&c| c == '\n').map_or(chars.len(), |n| at + n)
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                i += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    chars.len()
}

fn quoted_end(chars: &[char], mut i: usize, quote: char) -> usize {
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            c if c == quote => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return at; // `r#name` is a raw identifier.
    }
    let mut i = at + 2 + hashes;
    while i < chars.len() {
        let closes = chars[i] == '"' && chars[i + 1..].iter().take(hashes).all(|&c| c == '#');
        if closes && chars.len() - i > hashes {
            return i + 1 + hashes;
        }
        i += 1;
    }
    chars.len()
}

/// The tokens of a source text, comments and literals left out.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::new();
    for (number, line) in strip(text).lines().enumerate() {
        let mut rest = line.trim_start();
        while !rest.is_empty() {
            let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let first = rest.chars().next().map_or(1, char::len_utf8);
            let len = if word > 0 {
                word
            } else if rest.starts_with("::") {
                2
            } else {
                first
            };
            out.push(Token { line: number + 1, text: rest[..len].to_owned() });
            rest = rest[len..].trim_start();
        }
    }
    out
}

/// Every path in `text` that begins with `crate`, `super` or `self`, from the crate root on.
/// `module` is where the file stands, such as `["map", "read"]`; empty for the root.
pub fn crate_paths(text: &str, module: &[String]) -> Vec<CratePath> {
    let tokens = tokens(text);
    let mut out = Vec::new();
    let mut here = Inline { module: module.to_vec(), depth: 0, opened_at: Vec::new() };
    let mut i = 0;
    while i < tokens.len() {
        here.follow(&tokens, i);
        let begins = i == 0 || tokens[i - 1].text != "::";
        let starts = match tokens[i].text.as_str() {
            "crate" | "super" => matches!(text_at(&tokens, i + 1), "::" | "as"),
            "self" => text_at(&tokens, i + 1) == "::",
            _ => false,
        };
        if begins && starts {
            i = path(&tokens, i, here.module.clone(), &mut out);
        } else {
            i += 1;
        }
    }
    out
}

/// Every name that a `use` statement brings into the crate root, with where it comes from.
pub fn root_names(text: &str) -> Vec<CratePath> {
    let tokens = tokens(text);
    let mut out = Vec::new();
    for i in 0..tokens.len() {
        if tokens[i].text == "use" && i + 1 < tokens.len() {
            path(&tokens, i + 1, Vec::new(), &mut out);
        }
    }
    out
}

/// The inline module in which the walk over the tokens stands.
struct Inline {
    module: Vec<String>,
    depth: usize,
    opened_at: Vec<usize>,
}

impl Inline {
    fn follow(&mut self, tokens: &[Token], i: usize) {
        match tokens[i].text.as_str() {
            "{" => {
                self.depth += 1;
                if i >= 2 && tokens[i - 2].text == "mod" {
                    self.module.push(tokens[i - 1].text.clone());
                    self.opened_at.push(self.depth);
                }
            }
            "}" => {
                if self.opened_at.last() == Some(&self.depth) {
                    self.opened_at.pop();
                    self.module.pop();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            _ => {}
        }
    }
}

fn text_at(tokens: &[Token], i: usize) -> &str {
    tokens.get(i).map_or("", |t| t.text.as_str())
}

/// Reads one path, or a group of them, from token `i` on; `prefix` is what stands before it.
/// Returns the token after it.
fn path(
    tokens: &[Token],
    mut i: usize,
    mut prefix: Vec<String>,
    out: &mut Vec<CratePath>,
) -> usize {
    let line = tokens.get(i).map_or(0, |t| t.line);
    loop {
        match text_at(tokens, i) {
            "{" => return group(tokens, i + 1, &prefix, out),
            "crate" => prefix.clear(),
            "super" => drop(prefix.pop()),
            "self" => {}
            other => prefix.push(other.to_owned()),
        }
        i += 1;
        if text_at(tokens, i) != "::" || text_at(tokens, i + 1) == "<" {
            break;
        }
        i += 1;
    }
    let mut name = prefix.last().cloned().unwrap_or_default();
    if text_at(tokens, i) == "as" {
        name = text_at(tokens, i + 1).to_owned();
        i += 2;
    }
    out.push(CratePath { line, segments: prefix, name });
    i
}

fn group(tokens: &[Token], mut i: usize, prefix: &[String], out: &mut Vec<CratePath>) -> usize {
    while i < tokens.len() {
        match text_at(tokens, i) {
            "}" => return i + 1,
            "," => i += 1,
            _ => i = path(tokens, i, prefix.to_vec(), out),
        }
    }
    i
}
