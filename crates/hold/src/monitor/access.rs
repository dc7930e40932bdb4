//! Who may read the pages: a check of the request's host, and of a secret if there is one.

use super::responses::Answer;
use super::server::is_own_name;
use commonhold_files::http::Head;
use commonhold_io::address::Address;
use commonhold_terminal::bytes;
use std::hint::black_box;
use std::net::IpAddr;

/// See the module.
#[derive(Debug)]
pub struct Access {
    /// Only this machine connects.
    is_local: bool,
    secret: Option<Vec<u8>>,
}

impl Access {
    /// For a server at this address, whose clients must send the secret, if there is one.
    pub fn new(address: &Address, secret: Option<Vec<u8>>) -> Access {
        Access { is_local: is_local(address), secret }
    }

    /// The answer to a request that is refused; `received` begins with its head.
    pub fn refusal(&self, head: &Head<'_>, received: &[u8]) -> Option<Answer> {
        // A foreign page may have a name that resolves to this machine; it must not read the
        // answers here.
        if self.is_local && !head.host.is_none_or(is_own_name) {
            let why = "Use an IP address, or localhost, as the host.";
            return Some(Answer::plain(403).because(why));
        }
        let secret = self.secret.as_deref()?;
        match credentials(received) {
            Some(sent) if is_equal(&sent, secret) => None,
            _ => Some(Answer::plain(401).because("Send the secret, as a password or a token.")),
        }
    }
}

/// Whether only this machine can connect.
fn is_local(address: &Address) -> bool {
    match address {
        Address::Unix(_) => false,
        Address::Tcp(host, _) if host.eq_ignore_ascii_case("localhost") => true,
        Address::Tcp(host, _) => host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
    }
}

/// The token or the password in the head of a request; `None` if there is none, or more than one
/// field.
fn credentials(received: &[u8]) -> Option<Vec<u8>> {
    let lines = received.split(|byte| *byte == b'\n').skip(1);
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut fields = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        line[..colon].eq_ignore_ascii_case(b"authorization").then_some(&line[colon + 1..])
    });
    let value = std::str::from_utf8(fields.next()?).ok()?.trim();
    if fields.next().is_some() {
        return None;
    }
    let (scheme, sent) = value.split_once(' ')?;
    let sent = sent.trim_start();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(sent.as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    // The name of the user may be any.
    let pair = bytes::from_base64(sent).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

/// Whether the bytes are equal, in a time that depends only on their number: it does not tell a
/// client how much of a secret it has guessed.
fn is_equal(sent: &[u8], secret: &[u8]) -> bool {
    let differing = sent.iter().zip(secret).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
    sent.len() == secret.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_recognized() {
        let local = |text: &str| is_local(&text.parse().expect("an address"));
        assert!(local("tcp:80") && local("tcp:localhost:80") && local("tcp:[::1]:80"));
        assert!(!local("tcp:0.0.0.0:80") && !local("tcp:example.org:80") && !local("unix:/a"));
    }

    #[test]
    fn passwords_and_tokens_are_found() {
        let sent = |fields: &str| credentials(format!("GET / HTTP/1.1\r\n{fields}\r\n").as_bytes());
        assert_eq!(sent("Host: a\r\nAuthorization: Bearer it\r\n"), Some(b"it".to_vec()));
        assert_eq!(sent("authorization:bearer  it \r\n"), Some(b"it".to_vec()));
        // "me:a:b" and ":it".
        assert_eq!(sent("AUTHORIZATION: basic bWU6YTpi\r\n"), Some(b"a:b".to_vec()));
        assert_eq!(sent("Authorization: Basic Oml0\r\n"), Some(b"it".to_vec()));
        let twice = "Authorization: Bearer it\r\nAuthorization: Bearer it\r\n";
        for none in ["", twice, "Authorization: it\r\n", "Authorization: Digest it\r\n"] {
            assert_eq!(sent(none), None, "{none}");
        }
        for none in
            ["Authorization: Basic bWU=\r\n", "Authorization: Basic %\r\n", "X: Bearer it\r\n"]
        {
            assert_eq!(sent(none), None, "{none}");
        }
        // What follows the head is no part of it.
        assert_eq!(sent("Host: a\r\n\r\nAuthorization: Bearer it\r\n"), None);
    }

    #[test]
    fn only_the_secret_is_equal_to_the_secret() {
        assert!(is_equal(b"secret", b"secret"));
        for other in [&b""[..], b"secre", b"secreT", b"secrets", b"Secret"] {
            assert!(!is_equal(other, b"secret"));
        }
    }
}
