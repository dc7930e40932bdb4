//! The public API of the library, as a list that changes only on purpose.
//!
//! `api.txt` has a line for every public item: what the crate's root and its public modules export,
//! and the public methods, fields and variants of each type. A change of it is a change of what
//! users rely on, and belongs into the changelog. `UPDATE_API=1 cargo test -p commonhold --test
//! layering` writes the list anew. `raw` and `steps` are hidden and may change in any release.

use crate::{files, root};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use syn::{Fields, ImplItem, Item, Type, UseTree, Visibility};

const MODULES: [&str; 6] = ["channel", "hold", "log", "map", "queue", "stream"];

/// Every item of the library's sources, but tests.
fn items() -> Vec<Item> {
    let sources = files(&root().join("crates/commonhold/src"), ".rs");
    let parse = |path| syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap().items;
    sources.iter().flat_map(parse).collect()
}

/// The names that a file exports with `pub use`.
fn exports(file: &str) -> BTreeSet<String> {
    fn names(tree: &UseTree, found: &mut BTreeSet<String>) {
        match tree {
            UseTree::Path(path) => names(&path.tree, found),
            UseTree::Name(name) => drop(found.insert(name.ident.to_string())),
            UseTree::Rename(rename) => drop(found.insert(rename.rename.to_string())),
            UseTree::Group(group) => group.items.iter().for_each(|tree| names(tree, found)),
            UseTree::Glob(_) => panic!("a glob hides what is exported"),
        }
    }
    let text = fs::read_to_string(root().join("crates/commonhold/src").join(file)).unwrap();
    let mut found = BTreeSet::new();
    for item in syn::parse_file(&text).unwrap().items {
        match item {
            Item::Use(item) if is_public(&item.vis) => names(&item.tree, &mut found),
            _ => {}
        }
    }
    found
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Tokens with single spaces, where Rust writes some.
fn text(tokens: impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    let tight = [(" :: ", "::"), (" < ", "<"), (" <", "<"), ("< ", "<"), (" >", ">"), (" ,", ",")];
    let more = [("& ", "&"), (" (", "("), ("( ", "("), (" )", ")"), (" :", ":"), (" ;", ";")];
    tight.iter().chain(&more).fold(text, |text, (from, to)| text.replace(from, to))
}

/// The name of the type that an `impl` is of.
fn type_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        Type::Reference(reference) => type_name(&reference.elem),
        _ => None,
    }
}

/// What each type, trait and function has that is public, by its name.
fn described(items: &[Item]) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut add = |name: String, line: String| {
        all.entry(name).or_default().insert(line);
    };
    for item in items {
        match item {
            Item::Struct(item) if is_public(&item.vis) => {
                let name = item.ident.to_string();
                add(name.clone(), format!("struct {name}{}", text(&item.generics)));
                let Fields::Named(fields) = &item.fields else { continue };
                for field in fields.named.iter().filter(|field| is_public(&field.vis)) {
                    let (field, kind) = (field.ident.as_ref().unwrap(), text(&field.ty));
                    add(name.clone(), format!("{name}.{field}: {kind}"));
                }
            }
            Item::Enum(item) if is_public(&item.vis) => {
                let name = item.ident.to_string();
                add(name.clone(), format!("enum {name}"));
                for variant in &item.variants {
                    let fields = text(&variant.fields);
                    add(name.clone(), format!("{name}::{} {fields}", variant.ident).trim().into());
                }
            }
            Item::Trait(item) if is_public(&item.vis) => {
                add(item.ident.to_string(), format!("trait {}", item.ident));
                for part in &item.items {
                    let line = match part {
                        syn::TraitItem::Fn(function) => text(&function.sig),
                        other => text(other).split("///").next().unwrap_or_default().to_owned(),
                    };
                    add(item.ident.to_string(), format!("{}::{line}", item.ident));
                }
            }
            Item::Fn(item) if is_public(&item.vis) => {
                add(item.sig.ident.to_string(), text(&item.sig));
            }
            Item::Impl(item) => {
                let Some(name) = type_name(&item.self_ty) else { continue };
                if let Some((of, _)) = &item.trait_ {
                    add(name.clone(), format!("impl {} for {}", text(of), text(&item.self_ty)));
                    continue;
                }
                for part in &item.items {
                    let ImplItem::Fn(function) = part else { continue };
                    if is_public(&function.vis) {
                        add(
                            name.clone(),
                            format!("{}::{}", text(&item.self_ty), text(&function.sig)),
                        );
                    }
                }
            }
            _ => {}
        }
    }
    all
}

#[test]
fn the_public_api_is_the_one_that_was_agreed_on() {
    let described = described(&items());
    let mut lines = String::new();
    let root_names = [("".to_owned(), exports("lib.rs"))];
    let modules =
        MODULES.map(|module| (format!("{module}::"), exports(&format!("{module}/mod.rs"))));
    for (module, names) in root_names.into_iter().chain(modules) {
        for name in names {
            let own = described.get(&name).into_iter().flatten();
            lines.extend(own.map(|line| format!("{module}{name} | {line}\n")));
        }
    }
    let path = root().join("crates/commonhold/api.txt");
    if std::env::var_os("UPDATE_API").is_some() {
        fs::write(&path, &lines).unwrap();
    }
    let agreed = fs::read_to_string(&path).unwrap_or_default();
    let (before, now): (BTreeSet<_>, BTreeSet<_>) =
        (agreed.lines().collect(), lines.lines().collect());
    let changes = before.difference(&now).map(|line| format!("- {line}"));
    let changes: Vec<_> =
        changes.chain(now.difference(&before).map(|l| format!("+ {l}"))).collect();
    assert!(
        changes.is_empty(),
        "the public API has changed; if that is meant, run this test with UPDATE_API=1 and write a \
         line into CHANGELOG.md:\n{}",
        changes.join("\n")
    );
    assert!(now.len() > 300, "only {} lines", now.len());
}
