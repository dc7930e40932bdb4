//! Opening and creating holds: nothing in the file is trusted before it was checked.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::clean;
use crate::hold::handle::Hold;
use crate::hold::open_byte;
use crate::hold::options::HoldOptions;
use crate::hold::recover;
use crate::hold::superblock::{DELETE_ON_LAST_EXIT, superblock};
use crate::hold::unreadable;
use crate::map::engine::dropping;
use crate::map::layout::root;
use crate::memory::arena::{Arena, Hooks};
use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, Kind, State, growth, header};
use crate::memory::lane::LaneGuard;
use crate::os::byte_lock::HeldBytes;
use crate::os::clock;
use crate::os::draft::Draft;
use crate::os::file::HoldFile;
use crate::os::location::{self, FileSystem};
use crate::os::mapping::Mapping;
use crate::os::reaper;
use crate::steps::{fault, shortened, step};
use crate::stream::own;
use crate::sync::hold_clock;
use crate::sync::participant::{self, TABLE_EXTENTS, table};
use crate::sync::space::{self, Space};
use crate::sync::unwind::UnwindGuard;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Extents of a new hold: the superblock with the first headers and roots, and the participants.
const FIRST_EXTENTS: u64 = space::LEAST / EXTENT;
/// Beyond this the file grows in 2 MiB steps and asks for huge pages.
const SMALL: u64 = 4 << 20;
pub(crate) const LEAST_BYTES: u64 = 1 << 20;
/// Directory entries name segments by offset / 64 in 32 bits.
pub(crate) const MOST_BYTES: u64 = 256 << 30;
const HUGE: u64 = 2 << 20;

const HOOKS: Hooks = Hooks {
    recover: recover::recover,
    opened,
    extend_table,
    finish_drops: dropping::finish_all,
    closed: clean::closed,
};

impl HoldOptions {
    /// Opens an existing hold.
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `ReadOnly`, `NotAHold`, `Version`, `Truncated`, `Damaged`,
    /// `Unclean` (a file hold after a crash of the system), `Busy`, `Unsupported` (file system),
    /// `TooManyParticipants`, `Invalid` (name); `TimedOut` if only dead processes' places are left,
    /// and a stopped process holds what their recovery needs.
    pub fn open(&self, name: impl AsRef<Path>) -> Result<Hold> {
        open(name.as_ref(), self)
    }

    /// Creates a hold atomically: no process ever sees half of one.
    ///
    /// # Errors
    /// `Exists`, `Full`, `Permission`, `Unsupported`, `Invalid`.
    pub fn create(&self, name: impl AsRef<Path>) -> Result<Hold> {
        create(name.as_ref(), self)
    }

    /// Opens a hold, or creates it if there is none.
    ///
    /// # Errors
    /// Those of [`open`](Self::open) and [`create`](Self::create), except `NotFound` and `Exists`.
    pub fn open_or_create(&self, name: impl AsRef<Path>) -> Result<Hold> {
        open_or_create(name.as_ref(), self)
    }
}

pub(crate) fn open(name: &Path, options: &HoldOptions) -> Result<Hold> {
    let path = location::resolve(name, options.directory.as_deref())?;
    // A hold that is deleted while it is being opened does not exist: look again.
    for _ in 0..100 {
        if let Some(hold) = try_open(&path, options)? {
            return Ok(hold);
        }
    }
    Err(deleted_again_and_again(&path))
}

pub(crate) fn open_or_create(name: &Path, options: &HoldOptions) -> Result<Hold> {
    // Somebody else may create or delete it in between.
    for _ in 0..100 {
        match open(name, options) {
            Err(error) if error.is_not_found() && !options.read_only => {}
            other => return other,
        }
        match create(name, options) {
            Err(error) if error.kind() == ErrorKind::Exists => {}
            other => return other,
        }
    }
    Err(deleted_again_and_again(&location::resolve(name, options.directory.as_deref())?))
}

fn deleted_again_and_again(path: &Path) -> Error {
    Error::new(
        ErrorKind::Busy,
        format!("{}: deleted repeatedly while it was being opened; try again", path.display()),
    )
}

pub(crate) fn create(name: &Path, options: &HoldOptions) -> Result<Hold> {
    let path = location::resolve(name, options.directory.as_deref())?;
    if !(LEAST_BYTES..=MOST_BYTES).contains(&options.max_bytes) {
        let text = format!("expected max_bytes from 1 MiB to 256 GiB, got {}", options.max_bytes);
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    let failed = |e: std::io::Error| Error::os(format!("creating {}", path.display()), &e);
    if let Ok(found) = path.symlink_metadata() {
        let shown = path.display();
        let dangling = found.is_symlink() && !path.exists();
        return Err(match dangling {
            true => {
                let text = format!(
                    "{shown}: is a dangling symbolic link; remove it, or create its target"
                );
                Error::new(ErrorKind::Invalid, text)
            }
            false => {
                let text = format!("{shown}: already exists; open it, or 'hold drop' it first");
                Error::new(ErrorKind::Exists, text)
            }
        });
    }
    let draft = Draft::new(&path, options.mode).map_err(failed)?;
    // Once it has its name nothing may fail. Without /proc it cannot be opened before that.
    let (placed, hold) = if draft.is_reachable() {
        let hold = create_in(&draft, &path, options)?;
        (draft.commit().map_err(failed)?, hold)
    } else {
        write_first_extents(file_of(&draft, &path)?, options)?;
        (draft.commit().map_err(failed)?, open(&path, options)?)
    };
    // The hold exists. If its directory is not durable, a crash may undo the creation as a whole.
    let _ = placed.sync();
    if options.delete_on_last_exit
        && let Err(error) = spawn_reaper(&hold, &path)
    {
        remove_unused(&hold, &path);
        return Err(failed(error));
    }
    Ok(hold)
}

/// Closes a hold and deletes its file, unless another process uses it: that process keeps it.
fn remove_unused(hold: &Hold, path: &Path) {
    hold.arena().close();
    let file = hold.space().file();
    // Held until the name is gone. The file was opened with the hold: it is no other hold's.
    let Ok(Some(_alone)) = open_byte::alone(file) else { return };
    if open_byte::leads_to(path, file) {
        // The creation fails in any case, with the first error.
        let _ = fault!("delete.remove").and_then(|()| std::fs::remove_file(path));
    }
}

fn spawn_reaper(hold: &Hold, path: &Path) -> std::io::Result<()> {
    let (space, file) = (hold.space(), hold.space().file());
    let mapped = (space.mapping().base().as_ptr() as usize, space.reserved() as usize);
    reaper::spawn(path, file.dev(), file.ino(), &[mapped])
}

/// Creates a hold in a draft, and opens it for writing.
pub(crate) fn create_in(draft: &Draft, target: &Path, options: &HoldOptions) -> Result<Hold> {
    write_first_extents(file_of(draft, target)?, options)?;
    let file = file_of(draft, target)?;
    let open_lock = open_byte::share_unnamed(&file)?;
    open_locked(file, target, options.max_bytes, open_lock, options)
}

/// The file of a draft, with the path that it will have.
fn file_of(draft: &Draft, target: &Path) -> Result<HoldFile> {
    let failed = |e: std::io::Error| Error::os(format!("creating {}", target.display()), &e);
    let path = if draft.is_reachable() { target.to_owned() } else { draft.path_now() };
    let file = fault!("create.duplicate").and_then(|()| draft.file().try_clone());
    HoldFile::new(file.map_err(failed)?, path, true).map_err(failed)
}

fn write_first_extents(file: HoldFile, options: &HoldOptions) -> Result<()> {
    let path = file.path().to_owned();
    let failed = |e: std::io::Error| Error::os(format!("creating {}", path.display()), &e);
    let in_memory = is_in_memory(&file)?;
    let inode = file.ino();
    file.set_len(FIRST_EXTENTS * EXTENT).map_err(failed)?;
    file.allocate(0, FIRST_EXTENTS * EXTENT).map_err(failed)?;
    let mapping = Mapping::reserve(&file, HUGE, HUGE, true).map_err(failed)?;
    mapping.populate(0, FIRST_EXTENTS * EXTENT).map_err(failed)?;
    let space = Space::new(file, mapping, in_memory);
    let growth = growth(&space);
    growth.committed.store(FIRST_EXTENTS, Ordering::Relaxed);
    growth.max_bytes.store(options.max_bytes, Ordering::Relaxed);
    for extent in 0..FIRST_EXTENTS {
        header(&space, extent).set(State::idle(Kind::Table));
    }
    table(&space).extents[0].store(EXTENT, Ordering::Relaxed);
    let flags = if options.delete_on_last_exit { DELETE_ON_LAST_EXIT } else { 0 };
    clean::begin(&space);
    hold_clock::begin(&space);
    superblock(&space).fill(inode, in_memory, flags)
}

fn is_in_memory(file: &HoldFile) -> Result<bool> {
    let path = file.path().display();
    match location::file_system(file).map_err(|e| Error::os(&path, &e))? {
        FileSystem::Memory => Ok(true),
        FileSystem::Disk => Ok(false),
        FileSystem::Unsupported(kind) => {
            let text = format!(
                "{path}: is on {kind}, which does not support holds; use /dev/shm or a local disk"
            );
            Err(Error::new(ErrorKind::Unsupported, text))
        }
    }
}

/// The file's layout depends on where it was created, wherever it lies now.
fn as_it_was_made(space: Space) -> Space {
    let checksums = superblock(&space).on_disk.load(Ordering::Relaxed) == 1;
    space.with_checksums(checksums)
}

/// `None` if the file was deleted or replaced meanwhile.
fn try_open(path: &Path, options: &HoldOptions) -> Result<Option<Hold>> {
    let writable = !options.read_only;
    let failed = |e: std::io::Error| open_error(path, writable, &e);
    let file = location::open_existing(path, writable).map_err(failed)?;
    let max_bytes = first_look(path, &file)?;
    let file = HoldFile::new(file, path.to_owned(), writable).map_err(failed)?;
    let Some(open_lock) = open_byte::share(&file, path, options.lock_timeout)? else {
        return Ok(None);
    };
    open_locked(file, path, max_bytes, open_lock, options).map(Some)
}

/// Opens a hold whose open byte is locked.
fn open_locked(
    file: HoldFile,
    path: &Path,
    max_bytes: u64,
    open_lock: open_byte::Shared,
    options: &HoldOptions,
) -> Result<Hold> {
    let writable = !options.read_only;
    let failed = |e: std::io::Error| open_error(path, writable, &e);
    let in_memory = is_in_memory(&file)?;
    let len = file.len().map_err(failed)?;
    if len < FIRST_EXTENTS * EXTENT {
        return Err(truncated(path, len, FIRST_EXTENTS * EXTENT));
    }
    let wanted = max_bytes.max(len).next_multiple_of(HUGE);
    let mapping =
        Mapping::reserve(&file, wanted, len.next_multiple_of(HUGE), writable).map_err(failed)?;
    if in_memory {
        mapping.advise_huge(SMALL);
    }
    let space = as_it_was_made(Space::new(file, mapping, in_memory));
    check_sizes(&space, path)?;
    let space = check_boot(space, path, open_lock.was_alone, writable)?;
    let arena = Arena::new(space);
    arena.set_lock_timeout(options.lock_timeout);
    *arena.open_lock.lock().unwrap_or_else(|e| e.into_inner()) = Some(open_lock.held);
    if writable {
        let flags = superblock(&arena.space).flags.load(Ordering::Relaxed);
        arena.space.file().keep_description(flags & DELETE_ON_LAST_EXIT != 0);
        arena.register(HOOKS)?;
        // From now on the registration keeps the open byte, and so does that of a forked child.
        arena.open_lock.lock().unwrap_or_else(|e| e.into_inner()).take();
        arena.sweep()?;
        extend_table(&arena.enter()?.impatient());
        arena.enter()?.trim_if_due();
    }
    Ok(Hold::new(arena))
}

fn open_error(path: &Path, writable: bool, error: &std::io::Error) -> Error {
    let path = path.display();
    let text = match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("{path}: this hold does not exist; check its name, or create it")
        }
        std::io::ErrorKind::PermissionDenied => {
            let way_out =
                if writable { "open it read-only, or ask its owner" } else { "ask its owner" };
            format!("{path}: permission denied; {way_out}")
        }
        std::io::ErrorKind::IsADirectory => format!("{path}: is a directory, not a hold"),
        _ => return Error::os(path, error),
    };
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        std::io::ErrorKind::PermissionDenied => ErrorKind::Permission,
        _ => ErrorKind::NotAHold,
    };
    Error::new(kind, text).about(path).caused_by(error)
}

/// Reads the first page by ordinary reads and checks that the file is a hold. Returns its size
/// limit.
fn first_look(path: &Path, file: &File) -> Result<u64> {
    let mut page = [0u8; 4096];
    let shown = path.display();
    let mut got = 0;
    while got < page.len() {
        let len = shortened!("open.first-bytes", page.len() - got);
        let read = fault!("open.read");
        match read.and_then(|()| file.read_at(&mut page[got..got + len], got as u64)) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) => return Err(open_error(path, false, &error)),
        }
    }
    let word = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap_or_default());
    if word(0) != crate::hold::superblock::MAGIC {
        let text = format!("{shown}: not a hold (its header does not match); check the name");
        return Err(Error::new(ErrorKind::NotAHold, text));
    }
    if got < page.len() {
        return Err(truncated(path, got as u64, FIRST_EXTENTS * EXTENT));
    }
    let limit = word(extents::GROWTH_OFFSET as usize + 16);
    if !(LEAST_BYTES..=MOST_BYTES).contains(&limit) {
        let text = format!("{shown}: its superblock is damaged; run 'hold repair --salvage'");
        return Err(Error::new(ErrorKind::Damaged, text));
    }
    Ok(limit)
}

fn truncated(path: &Path, len: u64, wanted: u64) -> Error {
    let text = format!(
        "{}: is truncated: expected {wanted} bytes, got {len}; restore a backup, or run 'hold \
         repair --salvage'",
        path.display()
    );
    Error::new(ErrorKind::Truncated, text)
}

fn check_sizes(space: &Space, path: &Path) -> Result<()> {
    let own = superblock(space);
    own.check_identity(path)?;
    let committed = growth(space).committed.load(Ordering::Acquire);
    if !(FIRST_EXTENTS..=MOST_BYTES / EXTENT).contains(&committed) {
        let text = format!("{}: its size is damaged; run 'hold repair --salvage'", path.display());
        return Err(Error::new(ErrorKind::Damaged, text));
    }
    // After the other: a process that grows the hold lengthens the file first.
    let len = space.file().len().map_err(|e| Error::os(path.display(), &e))?;
    if committed * EXTENT > len {
        return Err(truncated(path, len, committed * EXTENT));
    }
    if committed * EXTENT > space.reserved() {
        let text = format!("{}: not enough address space; raise 'ulimit -v'", path.display());
        return Err(Error::new(ErrorKind::Io, text));
    }
    Ok(())
}

/// Checks whether the hold was open when the system stopped, and whether it is a copy taken while
/// open. If all is well and this process writes, it marks the hold as open, and the clock
/// continues.
fn check_boot(space: Space, path: &Path, alone: bool, writable: bool) -> Result<Space> {
    let own = superblock(&space);
    let clean = clean::is_clean(&space);
    let shown = path.display();
    let unclean = |what: &str| -> Result<Space> {
        let text = format!(
            "{shown}: {what}; restore a backup ('hold restore'), or salvage what is intact with \
             'hold repair --salvage'"
        );
        Err(Error::new(ErrorKind::Unclean, text))
    };
    if !clean && own.inode.load(Ordering::Relaxed) != space.file().ino() {
        return unclean("is a copy that was taken while the hold was open");
    }
    let idle = alone || (!writable && is_idle(&space));
    let same_boot = own.is_this_boot()?;
    if !clean && !same_boot {
        if !idle {
            let text = format!(
                "{shown}: in use by processes that see another boot id (another sandbox); share \
                 /proc/sys/kernel/random/boot_id with them"
            );
            return Err(Error::new(ErrorKind::Busy, text));
        }
        if !space.in_memory() {
            return unclean("was open when the system stopped");
        }
    }
    clock::learn_namespace();
    if writable && alone {
        take_over(&space)?;
    }
    let own_offset = hold_clock::own_offset(&space, superblock(&space).is_this_boot()?);
    Ok(space.with_own_offset(own_offset))
}

/// Marks the hold as belonging to this file and this boot.
fn take_over(space: &Space) -> Result<()> {
    let own = superblock(space);
    if own.inode.load(Ordering::Relaxed) != space.file().ino() {
        renumber_streams(space)?;
    }
    own.inode.store(space.file().ino(), Ordering::Relaxed);
    // Before the boot: until that is stored, the next process does it again.
    hold_clock::go_on(space, own.is_this_boot()?);
    own.set_boot()
}

/// A copy of a hold has streams of its own: from now on its changes differ from the original's.
fn renumber_streams(space: &Space) -> Result<()> {
    for (_, root) in root::all(space) {
        own::renumber(&root.stream, own::draw_numbers()?[0]);
    }
    Ok(())
}

/// Called before the first write: a file hold is marked as open on the disk before anything else
/// gets there.
fn opened(arena: &Arena) -> Result<()> {
    let space = &arena.space;
    // A forked child may be in another namespace.
    clock::learn_namespace();
    if clean::is_clean(space) {
        // Readers may have come first, so the process that opened it for writing was not alone
        // then.
        take_over(space)?;
    }
    clean::remove_mark(space)
}

/// True if no participant is registered.
fn is_idle(space: &Space) -> bool {
    participant::slots(space).all(|(number, slot)| {
        slot.user(number).is_none_or(|owner| participant::is_dead(space, owner))
    })
}

/// Adds an extent to the table of participants when it is nearly full. `lane` does not wait: a
/// process that grows the hold may be stopped, and neither opening the hold nor the first operation
/// of a forked child waits for it.
fn extend_table(lane: &LaneGuard<'_>) {
    let space = lane.space();
    let unused = participant::slots(space).filter(|(n, slot)| slot.user(*n).is_none()).count();
    let links = &table(space).extents;
    let next = links.iter().position(|link| link.load(Ordering::Acquire) == 0);
    let Some(next) = next.filter(|next| unused < 8 && *next < TABLE_EXTENTS) else { return };
    // Full: the table stays as it is, and a claim reports when it is exhausted.
    let Ok(extent) = extents::claim(space, lane, lane.lane()) else { return };
    // Changed to a table before it is linked: a kill in between leaves 64 KiB unused. In the other
    // order they would be freed.
    header(space, extent).set(State::idle(Kind::Table));
    let unused = UnwindGuard::new(|| extents::free(space, extent));
    step!("table.made");
    unused.done();
    let linked =
        links[next].compare_exchange(0, extent * EXTENT, Ordering::AcqRel, Ordering::Relaxed);
    if linked.is_err() {
        extents::free(space, extent);
    }
    step!("table.linked");
}

/// A hold in which nothing is trusted.
pub(crate) struct Damaged {
    pub(crate) space: Space,
    /// Nobody else opens it meanwhile.
    pub(crate) alone: HeldBytes,
    /// Device and inode of the file.
    pub(crate) identity: (u64, u64),
    /// Bytes that can be read.
    pub(crate) len: u64,
    /// The number of bytes that the file lacks according to its own fields.
    pub(crate) cut_off: u64,
    /// Bytes that cannot be read; zeros replace them.
    pub(crate) unreadable: Vec<Range<u64>>,
}

/// Maps a file hold for salvage, alone. Checks only that it is a hold.
pub(crate) fn open_for_salvage(path: &Path) -> Result<Damaged> {
    let failed = |e: std::io::Error| open_error(path, true, &e);
    let file = location::open_existing(path, true).map_err(failed)?;
    match first_look(path, &file) {
        Err(error) if error.kind() == ErrorKind::NotAHold => return Err(error),
        _ => {}
    }
    let file = HoldFile::new(file, path.to_owned(), true).map_err(failed)?;
    let in_memory = is_in_memory(&file)?;
    let Some(alone) = open_byte::alone(&file)?.filter(|_| open_byte::leads_to(path, &file)) else {
        return Err(not_alone(path));
    };
    // To the end of its last page, after which there is nothing. The file keeps its short length:
    // lengthened, it would look complete.
    let (cut, identity) = (file.len().map_err(failed)?, (file.dev(), file.ino()));
    let len = cut.next_multiple_of(4096).max(space::LEAST);
    let file = if cut < space::LEAST { lengthened_copy(path, &file)? } else { file };
    let reserve = len.next_multiple_of(HUGE).max(HUGE);
    let mapping = Mapping::reserve(&file, reserve, reserve, true).map_err(failed)?;
    let there = file.len().map_err(failed)?;
    let unreadable = unreadable::cover(&file, &mapping, there).map_err(failed)?;
    let space = as_it_was_made(Space::new(file, mapping, in_memory));
    superblock(&space).check_identity(path)?;
    clock::learn_namespace();
    let own_offset = hold_clock::own_offset(&space, superblock(&space).is_this_boot()?);
    let space = space.with_own_offset(own_offset);
    space.has_been_lengthened(len);
    let committed = growth(&space).committed.load(Ordering::Relaxed);
    let should_be = if committed <= MOST_BYTES / EXTENT { committed * EXTENT } else { 0 };
    let cut_off = should_be.saturating_sub(cut);
    Ok(Damaged { space, alone, identity, len, cut_off, unreadable })
}

/// A nameless copy of a file that is too short to be mapped.
fn lengthened_copy(path: &Path, file: &HoldFile) -> Result<HoldFile> {
    let failed = |e: std::io::Error| Error::os(format!("copying {}", path.display()), &e);
    let draft = Draft::new(path, file.mode().map_err(failed)? | 0o600).map_err(failed)?;
    let mut from = location::open_existing(path, false).map_err(failed)?;
    let copied = fault!("salvage.copy").and_then(|()| std::io::copy(&mut from, &mut draft.file()));
    copied.and_then(|_| draft.file().set_len(space::LEAST)).map_err(failed)?;
    file_of(&draft, path)
}

/// The error for a hold that other processes use.
fn not_alone(path: &Path) -> Error {
    let text = format!(
        "{}: a process has it open, but salvage needs it exclusively; close it there",
        path.display()
    );
    Error::new(ErrorKind::Busy, text)
}
