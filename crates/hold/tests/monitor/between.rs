//! A proxy between a browser and the status page.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Once;
use std::thread;

/// A proxy between a browser and a server. Before the second request for the page, which the script
/// sends, `meanwhile` runs; returns the port.
pub fn between(server: u16, meanwhile: impl Fn() + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        let (mut loaded, once) = (false, Once::new());
        for mut client in listener.incoming().flatten() {
            let head = head_of(&mut client);
            if head.starts_with("GET /_hold/ ") {
                if loaded {
                    once.call_once(&meanwhile);
                }
                loaded = true;
            }
            let mut upstream = TcpStream::connect(("127.0.0.1", server)).expect("the server");
            let head = head.replace("Connection: keep-alive", "Connection: close");
            upstream.write_all(head.as_bytes()).expect("it takes a request");
            let mut answer = Vec::new();
            upstream.read_to_end(&mut answer).expect("an answer");
            // A browser that has seen enough goes.
            let _ = client.write_all(&answer);
        }
    });
    port
}

fn head_of(client: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && matches!(client.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("a head is text")
}
