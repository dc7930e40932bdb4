//! Each step of a model is a step of the code.
//!
//! A model that kills or stops where the code has no step of a name proves something that no test
//! can repeat; a step that is renamed, or added to a model, must find its counterpart. So every
//! variant of every enumeration of steps (`...At`, `Recovering`) stands in [`TIES`], with the steps of
//! the code that are passed right behind it. A variant that is broken on purpose has none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What is said of a model's step in place of a step of the code, and why that is enough.
const REASONS: [(&str, &str); 5] = [
    ("calls", "the steps of another enumeration follow"),
    ("reads", "it stores nothing: a kill there is one at the step before"),
    ("kernel", "it leaves nothing in the hold: locks of bytes, sleepers, wakes"),
    ("waiter", "what a dead waiter leaves costs a wake; stops and kills at random pass here"),
    ("ends", "nothing is left to do"),
];

/// Model and enumeration, then each variant with the steps behind it; `before` names the next step,
/// where the code has none in between.
const TIES: &str = "
channel At
  Done ends
  TakeOver channel.producer-claimed
  Walk reads
  WalkEnd channel.marked
  Next reads
  Mark channel.mark-written channel.marked
  Word reads
  Cursor reads
  WriteLimit channel.limited
  Verdict channel.scanned
  Wait channel.waits channel.dropped
  Body channel.written
  Zero channel.zeroed channel.filler-zeroed
  Head channel.sent channel.filled
  Claim channel.line-claimed
  Begin reads
  Store channel.cursor-stored
  Count channel.joining
  Again channel.joined
  Poll reads
  Copy channel.copied
  Take channel.publishing
  Publish channel.published
  Leave channel.line-left
charge At
  Look reads
  Announce cache.announced
  Arm write.armed
  Commit write.committed
  Load reads
  Named reads
  Again reads
  Mark cache.charging
  Swap cache.charged
  Disarm write.disarmed
  Byte recover.named recover.locked
  Ask recover.begun
  AskTotal reads
  AskAnnouncement reads
  Recovered recover.pending-recovered
  Done ends
lock At
  Next ends
  Lock calls
  Unlock calls
  Recover calls
  Sweep calls
  Claim calls
  Exit slot.released
lock RecoverAt
  Look reads
  Ask kernel
  Name recover.named
  Check recover.locked
  Withdraw before recover.named
  Listed reads
  Owner reads
  Enter recover.segment
  Leave recover.pending-recovered
  Swap recover.unlocked
  Wake kernel
  Unlist recover.lanes
  End before slot.claimed
  Clear before slot.claimed
lock ClaimAt
  Say before slot.locked
  Byte slot.locked
  Look reads
  Recover calls
  Tag slot.claimed
lock LockAt
  List write.listed queue.listed
  Fast write.locked queue.locked
  Look reads
  Take write.locked queue.locked
  AskTag reads
  AskByte kernel
  Again reads
  Flag waiter
  Wait kernel
  Asleep kernel
lock UnlockAt
  Enter write.armed
  Leave write.disarmed
  Swap write.unlocked queue.unlocked
  Wake kernel
  Unlist before write.listed
order At
  Script calls
  Take calls
  Recover calls
  Sweep calls
  RollBack before write.unlocked
order RecoverAt
  Byte recover.locked
  Release recover.locks-released
  Segment recover.segment
  Finished recover.split
  Unlock recover.unlocked
  Maps recover.blocks
  Empty drop.segment-emptied
  Emptied before drop.emptied
  Recovered before recover.maps
  MapsDone recover.maps
  Generation before slot.claimed
  Byteless kernel
queue At
  Next ends
  Move calls
  Moved calls
  Recover calls
  Sweep calls
queue MoveAt
  List queue.listed
  Lock queue.locked
  Look reads
  Write push.written
  Arm pull.armed push.armed
  Holder pull.holding push.releasing
  Commit pull.committed push.committed
  Unlock queue.unlocked
  Unlist before queue.listed
queue RecoverAt
  Byte recover.locked
  Check recover.begun
  Lane reads
  RollBack recover.rolling-back
  Disarm recover.rolled-back
  Unlock recover.locks-recovered
  Unlist recover.lanes
  GiveBack recover.requeued
  Generation before slot.claimed
  Release kernel
record At
  Next ends
  Set calls
  Get calls
  Retire calls
  Recover calls
  Sweep calls
  Claim calls
  Give extent.released
  Recycle calls
  Exit calls
record ClaimAt
  Byte slot.locked
  Recover calls
  Generation before slot.claimed
  Used slot.claimed
record RecycleAt
  Adopt extent.claimed
  Look reads
  Fill extent.populated
record ExitAt
  Give extent.released
  Used slot.released
  Byte kernel
record GetAt
  Slot read.found
  Sequence reads
  Key reads
  Value read.copied
  SlotAgain reads
  SequenceAgain reads
record RecoverAt
  Byte recover.locked
  Check recover.begun
  Listed reads
  LockWord recover.segment
  Armed reads
  Compare reads
  Victim reads
  Disarm recover.pending-recovered
  Unlock recover.unlocked
  Extent reads
  Scan reads
  Give recover.extents
  Unlist recover.lanes
  Generation before slot.claimed
  Used before slot.claimed
  Release kernel
record RetireAt
  State retire.state-written
  Bit retire.cleared
  Free write.retired
record SetAt
  Adopt extent.owned
  State record.state-written
  Bit record.allocated
  Key before write.prepared
  Value write.prepared
  List write.listed
  Lock write.locked
  Copy reads
  CopySequence reads
  CopyValue reads
  Look reads
  Old before write.armed-fields
  New write.armed-fields
  Arm write.armed
  Sequence write.sequenced
  Slot write.committed
  Replace replace.committed
  Retire write.retired
  Disarm write.disarmed
  Unlock write.unlocked
  Unlist before write.listed
split At
  Next ends
  Get calls
  Write calls
  Split calls
  Finish calls
  Recover calls
  Sweep calls
  Exit slot.released
split GetAt
  Depth reads
  Entry reads
  Slot read.found
  AgainDepth reads
  AgainEntry reads
split WriteAt
  Depth reads
  Entry reads
  List write.listed
  Lock write.locked inline.locked
  AgainDepth reads
  AgainEntry reads
  Fill fill.locked
  Store write.committed inline.committed
  Unlock write.unlocked
  Unlist before write.listed
split SplitAt
  Adopt extent.owned
  State record.state-written
  List split.child-listed
  Lock before split.child-written
  Init split.child-written
  Copying split.copying
  Copy before split.copied
  Live split.copied
  Directory split.entries-locked
  Publishing split.publishing
  RollBackUnlock before retire.state-written
  RollBackState retire.state-written
  RollBackFree retire.cleared
  RollBackPhase before write.unlocked
  Unlock split.child-unlocked
  Unlist before write.unlocked
  GiveUp extent.released
split FinishAt
  Lock split.entries-locked double.locked
  Depth reads
  Zero double.claimed
  Double double.committed
  Entry split.entry-stored
  Unlock split.entries-stored
  Clear split.cleared
  None split.finished
split RecoverAt
  Byte recover.locked
  Check recover.begun
  Directory recover.locks-released
  Segment recover.segment
  Phase recover.pending-recovered
  RollBackUnlock before retire.state-written
  RollBackState retire.state-written
  RollBackFree retire.cleared
  RollBackPhase recover.split
  Unlock recover.unlocked
  Child before recover.locks-recovered
  Extent recover.maps
  ExtentFree before recover.extents
  ExtentGive recover.extents
  Unlist recover.lanes
  Generation before slot.claimed
  Used before slot.claimed
  Release kernel
stream At
  Segment write.locked
  Stream stream.locked
  Check reads
  Frame stream.claimed stream.written
  Position stream.positioned
  ArmOld before stream.armed-fields
  ArmEnd stream.armed-fields
  Arm stream.armed
  Commit write.committed
  Announce stream.announced
  Disarm stream.disarmed
  FreeStream stream.unlocked
  FreeSegment write.unlocked
  EndLock stream.locked
  End reads
  EndFree before stream.locked
  Bump drop.begun
  Empty drop.segment-emptied
  Free drop.done
  Done ends
stream Recovering
  Tail recover.stream-decided
  Disarm before recover.stream-unlocked
  Stream recover.stream-unlocked
  Segment recover.unlocked
  Byte kernel
wake At
  Try reads
  Event reads
  Flag waiter
  Again channel.idle
  Sleep kernel
  Asleep kernel
  Bring channel.sent push.committed
  Look reads
  Clear channel.takeover-woken
  Bump channel.takeover-woken
  Wake channel.woken push.woken
  Watch reads
  Done ends
";

/// Model and enumeration.
type Steps = (String, String);

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: PathBuf, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => rust_files(path, found),
            false => found.push(path),
        }
    }
}

/// The variants of every enumeration of steps, but those that are broken on purpose.
fn in_models() -> BTreeMap<Steps, BTreeSet<String>> {
    let (mut files, mut found) = (Vec::new(), BTreeMap::new());
    let root = here().join("src");
    rust_files(root.clone(), &mut files);
    for path in files {
        let inside = path.strip_prefix(&root).expect("below the root");
        let first = inside.components().next().expect("a name").as_os_str().to_string_lossy();
        let model = first.trim_end_matches(".rs").to_owned();
        let text = std::fs::read_to_string(&path).expect("a source");
        for part in text.split("\npub enum ").skip(1) {
            let (name, body) = part.split_once('{').expect("a body");
            let name = name.trim();
            if name.ends_with("At") || name == "Recovering" {
                let body = body.split("\n}").next().expect("an end");
                found.insert((model.clone(), name.to_owned()), variants(body));
            }
        }
    }
    found
}

fn variants(body: &str) -> BTreeSet<String> {
    let (mut found, mut broken) = (BTreeSet::new(), false);
    for line in body.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("///") {
            broken |= doc.trim().starts_with("(broken)");
        } else if line.starts_with(char::is_uppercase) {
            let end = line.find(|c: char| !c.is_alphanumeric()).unwrap_or(line.len());
            if !broken {
                found.insert(line[..end].to_owned());
            }
            broken = false;
        }
    }
    found
}

/// [`TIES`] as a table.
fn tied() -> BTreeMap<Steps, BTreeMap<String, Vec<String>>> {
    let mut found: BTreeMap<Steps, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    let mut current = None;
    for line in TIES.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace().map(str::to_owned);
        let first = words.next().expect("a word");
        if line.starts_with(' ') {
            let steps: &Steps = current.as_ref().expect("an enumeration first");
            let ties = found.get_mut(steps).expect("just begun");
            assert!(ties.insert(first, words.collect()).is_none(), "{steps:?}: twice: {line}");
        } else {
            let steps = (first, words.next().expect("an enumeration"));
            assert!(found.insert(steps.clone(), BTreeMap::new()).is_none(), "twice: {line}");
            current = Some(steps);
        }
    }
    found
}

/// The names of the code's steps.
fn of_the_code() -> BTreeSet<String> {
    let list = here().join("../crates/commonhold/src/steps/list.rs");
    let text = std::fs::read_to_string(list).expect("the list of steps");
    let code = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let quoted = code.filter_map(|line| line.strip_prefix('"')?.strip_suffix("\","));
    let found: BTreeSet<String> = quoted.map(str::to_owned).collect();
    assert!(found.len() > 100, "{found:?}");
    found
}

#[test]
fn every_step_of_a_model_is_one_of_the_code() {
    let (models, ties, code) = (in_models(), tied(), of_the_code());
    let (all, listed): (Vec<&Steps>, Vec<&Steps>) =
        (models.keys().collect(), ties.keys().collect());
    assert_eq!(all, listed, "in the models, and in the table");
    for (steps, variants) in &models {
        let tied: BTreeSet<String> = ties[steps].keys().cloned().collect();
        assert_eq!(variants, &tied, "{steps:?}: in the model, and in the table");
        for (variant, words) in &ties[steps] {
            let reason = |word: &String| REASONS.iter().any(|(name, _)| name == word);
            let named: Vec<_> = words.iter().filter(|word| *word != "before").collect();
            let is_reason = named.len() == 1 && reason(named[0]);
            let are_steps = !named.is_empty() && named.iter().all(|name| code.contains(*name));
            assert!(
                is_reason || are_steps,
                "{steps:?} {variant}: {words:?} is nothing of the code"
            );
        }
    }
    for (name, why) in REASONS {
        assert!(TIES.contains(&format!(" {name}\n")), "nothing {name}: {why}");
    }
}
