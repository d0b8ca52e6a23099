use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Writes a file of so many bytes.
fn file(parts: &mut Parts, bytes: usize) {
    parts.begin().unwrap();
    parts.write_all(&vec![b'x'; bytes]).unwrap();
    parts.complete(|| 0).unwrap();
}

#[test]
fn a_file_has_its_name_when_it_is_complete_and_numbers_go_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("app.zst");
    let mut parts = Parts::new(&output, None).unwrap();
    assert_eq!(parts.pattern(), folder.path().join("app.*.zst"));
    file(&mut parts, 10);
    parts.begin().unwrap();
    assert_eq!((parts.number(), parts.part_bytes()), (Some(2), 0));
    assert_eq!(names(folder.path()), ["app.000001.zst", "app.000002.zst.part"]);
    parts.write_all(b"cut off").unwrap();
    drop(parts);
    file(&mut Parts::new(&output, None).unwrap(), 10);
    assert_eq!(names(folder.path()), ["app.000001.zst", "app.000002.zst", "app.000003.zst"]);
    assert_eq!(fs::read(folder.path().join("app.000002.zst")).unwrap(), b"cut off");
}

#[test]
fn an_empty_file_that_is_left_goes_away() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("app.zst");
    let mut parts = Parts::new(&output, None).unwrap();
    parts.begin().unwrap();
    drop(parts);
    assert_eq!(names(folder.path()), ["app.000001.zst.part"]);
    Parts::new(&output, None).unwrap();
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn numbers_of_seven_digits_follow_those_of_six() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("app");
    fs::write(folder.path().join("app.999998"), "x").unwrap();
    let mut parts = Parts::new(&output, Some(2)).unwrap();
    for _ in 0..3 {
        file(&mut parts, 1);
    }
    assert_eq!(names(folder.path()), ["app.1000000", "app.1000001"]);
    file(&mut Parts::new(&output, Some(2)).unwrap(), 1);
    assert_eq!(names(folder.path()), ["app.1000001", "app.1000002"]);
}

#[test]
fn only_the_recordings_own_files_are_counted_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let others = ["app.1.zst", "app.00000001.zst", "app.000001.zst.bak", "app.zst", "b.000009.zst"];
    for name in others {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    let mut parts = Parts::new(&folder.path().join("app.zst"), Some(1)).unwrap();
    for _ in 0..3 {
        file(&mut parts, 1);
    }
    let mut expected = others.map(str::to_owned).to_vec();
    expected.push("app.000003.zst".to_owned());
    expected.sort();
    assert_eq!(names(folder.path()), expected);
    assert_eq!((parts.files, parts.bytes), (3, 3));
}

#[test]
fn a_file_that_another_recorder_writes_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("app.zst");
    let mut parts = Parts::new(&output, None).unwrap();
    parts.begin().unwrap();
    let error = Parts::new(&output, None).err().expect("it is written").to_string();
    assert!(error.contains("app.000001.zst.part: another recorder"), "{error}");
    assert_eq!(names(folder.path()), ["app.000001.zst.part"]);
    parts.discard();
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn a_folder_that_is_not_there_is_named_with_the_option() {
    let error = Parts::new(Path::new("/nowhere/app.zst"), None).err().expect("none").to_string();
    assert!(error.starts_with("-o /nowhere/app.zst: /nowhere: No such file"), "{error}");
    for folder in ["/", "/tmp/", "/tmp"] {
        let error = Parts::new(Path::new(folder), None).err().expect("none").to_string();
        assert!(error.starts_with(&format!("-o {folder}: names no file")), "{error}");
    }
}
