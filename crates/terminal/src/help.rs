//! Help texts.

/// The text after a subcommand's help: consecutive lines of text become one line, which clap wraps
/// to the terminal's width; indented lines stay unchanged.
pub fn flowing(text: &str) -> String {
    let mut flowing = String::with_capacity(text.len());
    let mut flows = false;
    for line in text.lines() {
        let is_text = !line.is_empty() && !line.starts_with(' ');
        if !flowing.is_empty() {
            flowing.push(if flows && is_text { ' ' } else { '\n' });
        }
        flowing.push_str(line);
        flows = is_text;
    }
    flowing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_flows_and_examples_stay() {
        let text = "Examples:\n  a\n  b\n\none\ntwo\n\nFiles: c\nd\n  e";
        assert_eq!(flowing(text), "Examples:\n  a\n  b\n\none two\n\nFiles: c d\n  e");
    }
}
