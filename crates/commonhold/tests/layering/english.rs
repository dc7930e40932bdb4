//! The English of documents, help texts and messages.
//!
//! A sentence has a named subject and a standard verb. The phrases below are those that this
//! project once used instead, each with the way out. The tests of the command use this file, too.

/// A phrase and what to write instead.
pub type Phrase = (&'static str, &'static str);

/// Phrases that are banned in every text.
pub const BANNED: [Phrase; 24] = [
    ("is told", "name who prints, returns or reports it"),
    ("are told", "name who prints, returns or reports it"),
    ("was told", "name who prints, returns or reports it"),
    ("unless told", "`by default`, or name the option"),
    ("without being told", "`by default`, or name the option"),
    ("is said", "name who prints, returns or documents it"),
    ("is charged with", "`counts`, `costs`"),
    ("anew", "`again`, or `a new ...`"),
    ("beside", "`next to`, `compared with`, `besides`"),
    ("so many", "the number, or `that many`"),
    ("wants to hear", "`requests`, `subscribes to`"),
    ("machine suit", "`check this machine`"),
    ("goes on with", "`continues with`, `resumes`"),
    ("go on with", "`continue with`, `resume`"),
    ("gone on with", "`resumed`"),
    ("for ever", "`forever`, `without limit`"),
    ("in hand", "`in flight`"),
    ("give up its", "`release`, `drop`"),
    ("gives up its", "`releases`, `drops`"),
    ("is no counter", "`is not a counter`"),
    ("on the way,", "`during ...`"),
    ("nobody's", "`no process's`"),
    ("somebody else's", "`another process's`"),
    ("as simple as can be", "`minimal`"),
];

/// Words that begin a clause which stands as a subject: "who is too slow is disconnected".
const HEADLESS: [&str; 4] = ["Who ", "What ", "Whoever ", "Whatever "];

/// What is wrong with the English of one text.
pub fn of_text(text: &str) -> Vec<String> {
    let mut wrong = banned(text, &BANNED);
    wrong.extend(headless(text));
    wrong
}

/// Those of the phrases that are in a text.
pub fn banned(text: &str, phrases: &[Phrase]) -> Vec<String> {
    let lower = text.to_lowercase();
    let found = phrases.iter().filter(|(phrase, _)| has_words(&lower, phrase));
    found.map(|(phrase, instead)| format!("`{phrase}`: write {instead}")).collect()
}

/// Whether `phrase` stands in `text` as whole words.
fn has_words(text: &str, phrase: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        let after = text[at + phrase.len()..].chars().next();
        !is_word(text[..at].chars().next_back()) && !is_word(after)
    })
}

fn headless(text: &str) -> Vec<String> {
    let begins = |sentence: &&str| HEADLESS.iter().any(|word| sentence.starts_with(word));
    sentences(text)
        .filter(begins)
        .filter(|sentence| !sentence.ends_with('?'))
        .map(|sentence| format!("`{}...` has no named subject", start_of(sentence)))
        .collect()
}

fn start_of(sentence: &str) -> String {
    sentence.chars().take(40).collect()
}

/// The sentences of a text, each with its final mark.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(['.', '?', '!']).map(str::trim)
}
