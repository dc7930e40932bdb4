//! Answers to requests for which there are no contents: a redirection, a file that stands in, or an
//! error, with its page if it has one.

use super::{Piece, Reply, Responder, push};
use crate::fresh_contents::{FreshContents, Stock};
use crate::freshness_checks::Seen;
use crate::http::head::{Head, Method, without_host};
use crate::packed::Packed;
use crate::payload::Payload;
use crate::source::Source;
use crate::store::Store;
use std::io;

impl Responder {
    /// Answers with the result: contents, the location of a directory, or that there is nothing.
    pub(super) fn found<S: Store, F: Source>(
        &mut self,
        contents: &mut FreshContents<S, F>,
        head: &Head<'_>,
        keep: bool,
    ) -> io::Result<Reply<F::Handle>> {
        let is_head = head.method == Method::Head;
        if let Some(reply) = self.contents(contents, head, keep)? {
            return Ok(reply);
        }
        Ok(match self.location(contents, head)? {
            Some(location) => self.plain(301, keep, is_head, &location),
            None => match self.fallback(contents, head, keep)? {
                Some(reply) => reply,
                None => self.error(contents, head, keep, 404, ""),
            },
        })
    }

    /// The location of a directory that was requested without the slash at the end.
    fn location<S: Store, F: Source>(
        &self,
        contents: &FreshContents<S, F>,
        head: &Head<'_>,
    ) -> io::Result<Option<String>> {
        let Some(id) = self.layout.id(&head.path) else { return Ok(None) };
        let has_index = self.layout.id(&[&head.path[..], b"/"].concat()).is_some();
        if head.path.ends_with(b"/") || !has_index || !contents.source().is_directory(&id)? {
            return Ok(None);
        }
        let target = without_host(head.target).unwrap_or_default();
        let (path, query) = match target.find('?') {
            Some(at) => target.split_at(at),
            None => (target, ""),
        };
        let path = path.split('#').next().unwrap_or_default();
        Ok(Some(format!("Location: {path}/{query}\r\n")))
    }

    /// Answers with the page of an application, for a path that is the application's own.
    fn fallback<S: Store, F: Source>(
        &mut self,
        contents: &mut FreshContents<S, F>,
        head: &Head<'_>,
        keep: bool,
    ) -> io::Result<Option<Reply<F::Handle>>> {
        let Some(page) = self.pages.fallback(&head.path) else { return Ok(None) };
        // Paths that the server hides, or that lead nowhere, are none of the application's.
        match self.layout.id(&head.path) {
            Some(_) => self.contents_of(contents, &page, head, keep),
            None => Ok(None),
        }
    }

    /// An error: with its page, or with its status as text if there is no page, or the page cannot
    /// be read.
    #[cold]
    pub(super) fn error<S: Store, F: Source>(
        &mut self,
        contents: &mut FreshContents<S, F>,
        head: &Head<'_>,
        keep: bool,
        status: u16,
        more: &str,
    ) -> Reply<F::Handle> {
        match self.page(contents, head, keep, status, more) {
            Ok(Some(reply)) => reply,
            Ok(None) | Err(_) => self.plain(status, keep, head.method == Method::Head, more),
        }
    }

    /// The page of an error. It has no validators: a client compares them with contents.
    fn page<S: Store, F: Source>(
        &mut self,
        contents: &mut FreshContents<S, F>,
        head: &Head<'_>,
        keep: bool,
        status: u16,
        more: &str,
    ) -> io::Result<Option<Reply<F::Handle>>> {
        let Some(page) = self.pages.error(status) else { return Ok(None) };
        let choose = |seen: &Seen| seen.coding(|coding| head.accepts(coding));
        let Some((stock, _)) = contents.find(&page, self.now, choose)? else { return Ok(None) };
        let is_head = head.method == Method::Head;
        let mut text = self.begin(status, keep, keep);
        text.push_str(more);
        let mut reply = Reply::of(status, keep);
        match stock {
            Stock::Packed(contents) => {
                let Some(packed) = Packed::of(contents.as_ref()) else { return Ok(None) };
                text.push_str(&packed.lines.without_validators());
                text.push_str("\r\n");
                reply = reply.headed(text.len());
                let len = if is_head { 0 } else { packed.len as u64 };
                let range = packed.range(&(0..len));
                let payload = Payload::contents(text.into_bytes(), contents, range);
                reply.pieces.push_back(Piece::Ready(payload));
            }
            Stock::Open(file) => {
                text.push_str(&file.lines.without_validators());
                text.push_str("\r\n");
                reply = reply.headed(text.len());
                let len = if is_head { 0 } else { file.stamp.len };
                push(&mut reply, text.into_bytes(), &file, 0..len, contents.source())?;
            }
        }
        Ok(Some(reply))
    }
}
