//! Copies of databases that commit together, as backups by `cp` or of a snapshot are put back: both
//! in another folder, one of them alone, or one beside the original under another name.
//!
//! Originals and copies are opened in an order by seed. Then
//!
//! 1. each original is what it is without copies, and no log of it is set aside;
//! 2. a copy is what its original is. One that was copied alone may be refused. Afterwards, with
//!    the others beside it and under its own name, all are what the originals are;
//! 3. no open of a copy changes a file of an original.

use std::collections::BTreeMap;

use fastrand::Rng;

use crate::content::Image;
use crate::look::look;
use crate::mix::mix2;
use crate::model::Found;
use crate::setting::Setting;
use crate::vfs::Mounted;

/// For a seed that nothing else has.
const OF_COPIES: u64 = 0x6370;

/// Which databases are copied, by their places, and to which names.
fn drawn(rng: &mut Rng, files: &[String]) -> Vec<(usize, String)> {
    let elsewhere = |at: usize| (at, format!("/copy{}", files[at]));
    match rng.u8(..4) {
        0 | 1 => (0..files.len()).map(elsewhere).collect(),
        2 => vec![elsewhere(rng.usize(..files.len()))],
        _ => {
            let at = rng.usize(..files.len());
            vec![(at, format!("/of{}", &files[at][1..]))]
        }
    }
}

/// `found`: what the originals are without copies.
pub fn check(
    image: &Image,
    setting: &Setting,
    files: &[String],
    found: &[Found],
) -> Result<(), String> {
    let mut rng = Rng::with_seed(mix2(image.hash(), OF_COPIES));
    let copies = drawn(&mut rng, files);
    let mut with_copies = image.clone();
    for (at, copy) in &copies {
        for (name, content) in &image.files {
            if let Some(side) = name.strip_prefix(files[*at].as_str()) {
                with_copies.files.insert(format!("{copy}{side}"), content.clone());
            }
        }
    }
    let machine = Mounted::new(&with_copies);
    let originals = files.iter().enumerate().map(|(at, file)| (at, file.clone(), false));
    let all = copies.iter().map(|(at, copy)| (*at, copy.clone(), true));
    let mut order: Vec<_> = originals.chain(all).collect();
    rng.shuffle(&mut order);
    let told: Vec<_> = order.iter().map(|(_, file, _)| file.as_str()).collect();
    let told = told.join(", ");
    for (at, file, is_copy) in &order {
        let before = of_originals(&machine, files);
        let looked = look(&machine, setting, file, true);
        match &looked {
            Ok(looked) if *looked != found[*at] => {
                return Err(format!(
                    "{file}: {looked:?} beside a copy, {:?} without (opened: {told})",
                    found[*at]
                ));
            }
            Ok(_) => {}
            Err(_) if *is_copy && copies.len() == 1 => {}
            Err(error) => return Err(format!("{file}: {error} (opened: {told})")),
        }
        if *is_copy && of_originals(&machine, files) != before {
            return Err(format!("{file}: its open changed an original (opened: {told})"));
        }
    }
    let left = machine.disk().image();
    // What was set aside before, and what a crash left of a log that was being made, stays.
    let is_new = |name: &&String| !with_copies.files.contains_key(*name);
    let set_aside = left.files.keys().filter(|name| name.contains("-maw-")).filter(is_new);
    let of_original = |name: &String| files.iter().any(|file| name.starts_with(file.as_str()));
    let may_stay = copies.len() == 1;
    let mut set_aside = set_aside.filter(|name| !may_stay || of_original(name));
    if let Some(log) = set_aside.next() {
        return Err(format!("{log} is still there (opened: {told})"));
    }
    let [(at, copy)] = copies.as_slice() else { return Ok(()) };
    let machine = Mounted::new(&put_together(image, &left, files, *at, copy));
    for (file, found) in files.iter().zip(found) {
        match look(&machine, setting, file, true) {
            Ok(looked) if looked == *found => {}
            looked => return Err(format!("{file}: {looked:?} where {copy} was opened alone")),
        }
    }
    Ok(())
}

/// What was copied alone, in the place of its original, and the other databases.
fn put_together(image: &Image, left: &Image, files: &[String], at: usize, copy: &str) -> Image {
    let original = files[at].as_str();
    let others = image.files.iter().filter(|(name, _)| !name.starts_with(original));
    let mut complete = Image::default();
    complete.files.extend(others.map(|(name, content)| (name.clone(), content.clone())));
    for (name, content) in &left.files {
        if let Some(side) = name.strip_prefix(copy) {
            complete.files.insert(format!("{original}{side}"), content.clone());
        }
    }
    complete
}

/// The files that belong to this database, and what they have.
fn starting_with(machine: &Mounted, file: &str) -> BTreeMap<String, u64> {
    let image = machine.disk().image();
    let mine = image.files.iter().filter(|(name, _)| name.starts_with(file));
    mine.map(|(name, content)| (name.clone(), content.hash())).collect()
}

fn of_originals(machine: &Mounted, files: &[String]) -> BTreeMap<String, u64> {
    files.iter().flat_map(|file| starting_with(machine, file)).collect()
}
