"""Several users at one mount, and mounts of users who are not root.

The kernel asks by `default_permissions`, so that each user may what the lower would allow. Without `allow_other` a mount is its
owner's alone. A user who is not root mounts by `fusermount3`.
"""

import copy
import itertools
import os
import stat
import subprocess
import time

import told
from place import PROGRAM, Place, dies_with_parent, run
from power import Restarted, image_of_now
from scenes import answer, as_user, play
from tree import differences, tree

USERS = [("root", 0, 0, []), ("owner", 60, 61, []), ("of the group", 62, 62, [61]), ("another", 63, 63, [])]
MODES = [0o000, 0o400, 0o200, 0o100, 0o040, 0o020, 0o010, 0o004, 0o002, 0o001, 0o750, 0o644, 0o1777, 0o1770]


def all_users(see, what, act, *arguments):
    for name, uid, gid, groups in USERS:
        see(f"{what}: {name}", as_user(uid, gid, groups, act, *arguments))


def opens(path):
    """How each way to open it ends."""
    flags = {"read": os.O_RDONLY, "write": os.O_WRONLY, "both": os.O_RDWR, "cut": os.O_RDONLY | os.O_TRUNC, "append": os.O_WRONLY | os.O_APPEND,
             "directory": os.O_RDONLY | os.O_DIRECTORY, "no link": os.O_RDONLY | os.O_NOFOLLOW, "path": os.O_PATH,
             "new": os.O_CREAT | os.O_EXCL | os.O_WRONLY, "there or new": os.O_CREAT | os.O_RDWR, "no access": os.O_RDONLY | os.O_NOATIME}
    return {name: answer(lambda flag=flag: os.close(os.open(path, flag | os.O_NONBLOCK, 0o644))) for name, flag in flags.items()}


def rights_to_files(folder, see):
    for mode in MODES:
        open("f", "w").close()
        os.chown("f", 60, 61)
        os.chmod("f", mode)
        all_users(see, f"open {mode:o}", opens, "f")
        all_users(see, f"access {mode:o}", lambda: [os.access("f", right, effective_ids=True) for right in range(8)])
        all_users(see, f"truncate {mode:o}", os.truncate, "f", 0)
        os.unlink("f")


def rights_to_directories(folder, see):
    def acts():
        return {
            "list": answer(lambda: sorted(os.listdir("d"))), "look": answer(lambda: os.stat("d/f").st_size),
            "read": answer(lambda: open("d/f").read()), "make": answer(lambda: os.close(os.open("d/new", os.O_CREAT | os.O_EXCL, 0o600))),
            "mkdir": answer(os.mkdir, "d/sub"), "link": answer(os.link, "f", "d/link"), "symlink": answer(os.symlink, "f", "d/sym"),
            "pipe": answer(os.mkfifo, "d/pipe"), "unlink": answer(os.unlink, "d/f"), "rename in": answer(os.rename, "mine", "d/mine"),
            "rename out": answer(os.rename, "d/g", "out"), "rename over": answer(os.rename, "d/h", "d/g"), "rmdir": answer(os.rmdir, "d/e"),
            "through it": answer(lambda: os.stat("d/e/..").st_uid), "enter": answer(os.chdir, "d"),
        }

    for mode, (name, uid, gid, groups) in itertools.product(MODES, USERS):
        subprocess.run("rm -rf d f mine out", shell=True, check=True)
        os.mkdir("d")
        os.mkdir("d/e")
        for path in ("f", "mine", "d/f", "d/g", "d/h"):
            open(path, "w").close()
            os.chown(path, 63, 63)
        os.chown("mine", uid, gid)
        os.chown("d", 60, 61)
        os.chmod("d", mode)
        see(f"{mode:o}: {name}", as_user(uid, gid, groups, acts))


def sticky(folder, see):
    """Who may remove and replace what in a directory as /tmp is."""
    kinds = {"file": lambda path: open(path, "w").close(), "dir": os.mkdir, "link": lambda path: os.symlink("x", path), "pipe": os.mkfifo}
    for kind, make in kinds.items():
        for of_file, of_folder in itertools.product((0, 60, 63), (0, 60)):
            for name, uid, gid, groups in USERS:
                subprocess.run(["rm", "-rf", "t", "other"], check=True)
                os.mkdir("t")
                os.mkdir("other")
                os.chmod("other", 0o777)
                make("t/x")
                make("t/y")
                os.lchown("t/x", of_file, of_file)
                os.lchown("t/y", uid, gid)
                os.chown("t", of_folder, of_folder)
                os.chmod("t", 0o1777)
                what = f"{kind} of {of_file} in {of_folder}'s: {name}"

                def acts():
                    return [answer(os.rename, "t/x", "t/z"), answer(os.rename, "t/y", "t/x"), answer(os.rename, "t/x", "other/x"),
                            answer(os.rename, "other/x", "t/x"), answer(os.rmdir if kind == "dir" else os.unlink, "t/x")]

                see(what, as_user(uid, gid, groups, acts))


def protected(folder, see):
    """What Linux itself keeps users from in /tmp (protected_hardlinks, protected_symlinks and their like)."""
    os.chmod(".", 0o1777)
    open("f", "w").close()
    os.chmod("f", 0o600)
    os.symlink("f", "l")
    os.lchown("l", 60, 60)
    os.mkfifo("p")
    os.chown("p", 60, 60)
    os.chmod("p", 0o666)
    all_users(see, "a link to another's file", os.link, "f", "h")
    if os.path.exists("h"):
        os.unlink("h")
    all_users(see, "through another's link", lambda: open("l").close())
    all_users(see, "another's pipe", lambda: os.close(os.open("p", os.O_RDWR | os.O_CREAT)))


def of_groups(folder, see):
    """What is made in a directory with set-group-ID."""
    for mode, (name, uid, gid, groups) in itertools.product((0o777, 0o2777, 0o3777), USERS):
        os.mkdir("d")
        os.chown("d", 0, 61)
        os.chmod("d", mode)

        def acts():
            os.umask(0)
            os.close(os.open("d/f", os.O_CREAT, 0o2775))
            os.close(os.open("d/g", os.O_CREAT, 0o2644))
            os.mkdir("d/e", 0o775)
            os.symlink("x", "d/l")
            os.mknod("d/p", stat.S_IFIFO | 0o2770)
            os.chmod("d/g", 0o2755)
            return [(path, oct(seen.st_mode), seen.st_uid, seen.st_gid) for path in sorted(os.listdir("d"))
                    for seen in [os.lstat(f"d/{path}")]]

        see(f"{mode:o}: {name}", as_user(uid, gid, groups, acts))
        subprocess.run(["rm", "-r", "d"], check=True)


SCENES = [rights_to_files, rights_to_directories, sticky, protected, of_groups]
# Debian's user `daemon`: the helper wants one that has a name.
ME, OTHER = 1, 63


def owner_alone(place):
    """Without allow_other nobody else comes in, not even root."""
    place.unmount()
    place.of_mount = ()
    place.mount()
    (place.at / "file").write_text("x")
    told.check("its owner", answer(os.listdir, place.at) != "EACCES", True)
    told.check("another", as_user(ME, ME, [], os.listdir, place.at), "EACCES")
    told.check("another's look", as_user(ME, ME, [], os.stat, place.at / "file"), "EACCES")
    os.unlink(place.at / "file")
    place.unmount()


class Unprivileged:
    """A mount by a user who is not root."""

    def __init__(self, place, name, *options):
        self.folder = place.fs / name
        self.lower, self.at = self.folder / "lower", self.folder / "at"
        for folder in (self.folder, self.lower, self.at):
            folder.mkdir()
            os.chown(folder, ME, ME)
        self.options = options

    def on(self, fs):
        """The same on a copy of the disk."""
        other = copy.copy(self)
        other.folder = fs / self.folder.name
        other.lower, other.at = other.folder / "lower", other.folder / "at"
        return other

    def command(self, *words):
        return ["setpriv", f"--reuid={ME}", f"--regid={ME}", "--clear-groups", PROGRAM, *map(str, words)]

    def stats(self):
        return dict(line.split(maxsplit=1) for line in run(*self.command("stats", self.at)).splitlines()[1:])

    def start(self):
        self.daemon = subprocess.Popen(self.command("mount", self.lower, self.at, "--foreground", *self.options), stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True, preexec_fn=dies_with_parent)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self.daemon.poll() is not None:
                return self.daemon.stdout.read()
            if subprocess.run(self.command("stats", self.at), capture_output=True).returncode == 0:
                return None
            time.sleep(0.02)
        return "it is not there in time"

    def stop(self):
        shown = as_user(ME, ME, [], see_tree, self.at)
        run(*self.command("umount", self.at))
        told.check("the daemon of another user", self.daemon.wait(60), 0)
        if found := differences(shown, as_user(ME, ME, [], see_tree, self.lower)):
            told.fail("an unprivileged mount, and the lower after it:\n" + "\n".join(found))


def see_tree(top):
    seen = tree(top)
    # Its own mark is a `user.` attribute of the root.
    return {name: [one for one in each if not str(one).startswith("('user.oneflush")] for name, each in seen.items()}


def guarded(at):
    """Files that their own owner may not write, or not read: git makes such."""
    os.chdir(at)
    done = []
    for mode in (0o444, 0o200, 0):
        file = os.open(f"{mode:o}", os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        done += [answer(os.write, file, b"x" * 5000), answer(os.fsync, file), os.pread(file, 3, 0), answer(os.close, file)]
    # It was emptied and written anew, and so a later sync takes its bytes.
    open("emptied", "w").write("before")
    file = os.open("emptied", os.O_RDWR | os.O_TRUNC)
    os.write(file, b"after" * 1000)
    os.fchmod(file, 0o200)
    os.close(file)
    os.mkdir("folder", 0o300)
    file = os.open("folder/file", os.O_CREAT | os.O_RDWR, 0o600)
    os.chmod("folder", 0)
    done += [answer(os.write, file, b"y"), answer(os.fsync, file), answer(os.close, file), answer(os.open, "444", os.O_WRONLY),
             answer(lambda: os.fsync(os.open(".", os.O_RDONLY)))]
    os.chmod("folder", 0o700)
    script = "git init -q g && cd g && echo x >f && git add f && git commit -q -m m && git gc -q && git fsck"
    names = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    git = subprocess.run(script, shell=True, capture_output=True, text=True, env={**os.environ, **names, "HOME": "/nonexistent"})
    return done + [git.returncode, [oct(os.stat(name).st_mode) for name in sorted(os.listdir("."))]]


def work(at):
    """What a user does at home."""
    os.chdir(at)
    os.makedirs("a/b")
    for number in range(50):
        with open(f"a/{number}", "w") as file:
            file.write(f"{number}" * 1000)
            os.fsync(file.fileno())
    os.rename("a/3", "a/4")
    os.rename("a/5", "a/b/5")
    os.link("a/6", "six")
    os.symlink("a", "link")
    os.chmod("a/7", 0o600)
    os.setxattr("a/7", "user.x", b"y")
    file = os.open("gone", os.O_CREAT | os.O_RDWR)
    os.write(file, b"gone")
    os.unlink("gone")
    done = [os.pread(file, 9, 0), answer(os.chown, "six", 0, -1), answer(os.mknod, "dev", stat.S_IFCHR, os.makedev(1, 3)), sorted(os.listdir("a"))]
    for number in range(20):
        with open("a/new", "w") as file:
            file.write(str(number))
        os.rename("a/new", "a/9")
    return done + [open("a/9").read(), os.path.getsize("link/b/5")]


def unprivileged(place):
    # As udev has it everywhere.
    os.mknod(place.folder / "fuse", stat.S_IFCHR | 0o666, os.makedev(10, 229))
    os.chmod(place.folder / "fuse", 0o666)
    run("mount", "--bind", place.folder / "fuse", "/dev/fuse")
    plain = place.fs / "plain"
    plain.mkdir()
    os.chown(plain, ME, ME)
    mine = Unprivileged(place, "mine")
    if said := mine.start():
        told.fail(f"a user could not mount: {said}")
    told.check("what a user does at home", as_user(ME, ME, [], work, mine.at), as_user(ME, ME, [], work, plain))
    told.check("files that are guarded", as_user(ME, ME, [], guarded, mine.at), as_user(ME, ME, [], guarded, plain))
    told.check("nothing has failed", mine.stats()["poisoned"], "0")
    told.check("root in it", answer(os.listdir, mine.at), "EACCES")
    told.check("another in it", as_user(OTHER, OTHER, [], os.listdir, mine.at), "EACCES")
    told.check("the log of it", oct(os.stat(f"{mine.lower}-oneflush/log").st_mode), "0o100600")
    mine.stop()
    left = [{name: seen for name, seen in tree(top, False).items() if b"/.git" not in name} for top in (plain, mine.lower)]
    if found := differences(*left):
        told.fail("plain, and the lower of an unprivileged mount:\n" + "\n".join(found))
    # The helper's permission for others is root's to give.
    theirs = Unprivileged(place, "theirs", "--allow-other")
    said = theirs.start()
    told.check("others without root's leave", said is not None and "user_allow_other" in said, True)
    permitted = place.folder / "fuse.conf"
    permitted.write_text("user_allow_other\n")
    run("mount", "--bind", permitted, "/etc/fuse.conf")
    if said := theirs.start():
        told.fail(f"a user could not mount for others: {said}")
    os.chmod(theirs.folder, 0o755)
    as_user(ME, ME, [], lambda: (open(theirs.at / "open", "w").write("text"), os.mkdir(theirs.at / "closed", 0o700)))
    told.check("another reads", as_user(OTHER, OTHER, [], lambda: open(theirs.at / "open").read()), "text")
    told.check("another writes", as_user(OTHER, OTHER, [], lambda: open(theirs.at / "open", "a").close()), "EACCES")
    os.chmod(theirs.lower, 0o777)
    told.check("another makes a file", as_user(OTHER, OTHER, [], lambda: open(theirs.at / "by another", "w").close()), "EPERM")
    told.check("what is left of it", os.path.exists(theirs.lower / "by another"), False)
    told.check("another looks into it", as_user(OTHER, OTHER, [], os.listdir, theirs.at / "closed"), "EACCES")
    os.chmod(theirs.lower, 0o700)
    theirs.stop()
    # Killed, and mounted again by the same user.
    killed = Unprivileged(place, "killed")
    told.check("a mount", killed.start(), None)
    as_user(ME, ME, [], work, killed.at)
    as_user(ME, ME, [], guarded, killed.at)
    killed.daemon.kill()
    killed.daemon.wait()
    image = image_of_now(place)
    told.check("after the daemon's death", killed.start(), None)
    check_synced(killed.at)
    killed.stop()
    # And after a loss of power, where its objects are found by their names.
    with Restarted(image) as disk:
        again = killed.on(disk.fs)
        told.check("after a loss of power", again.start(), None)
        check_synced(again.at)
        again.stop()


def check_synced(at):
    told.check("what was synced", as_user(ME, ME, [], lambda: [open(at / "a/4").read(), len(os.listdir(at / "a"))]), ["3" * 1000, 49])
    told.check("a file for reading only", as_user(ME, ME, [], lambda: open(at / "444").read()), "x" * 5000)
    sizes = [os.stat, at / "200"], [os.stat, at / "0"]
    told.check("others", [as_user(ME, ME, [], lambda: act(path).st_size) for act, path in sizes], [5000, 5000])


def main():
    with Place() as place:
        answers, different = play(place, SCENES)
        owner_alone(place)
        unprivileged(place)
    told.ok(f"{answers} answers in {len(SCENES)} scenes, {different} other than in a plain directory, with a reason; "
            f"the owner's alone, and by fusermount3")


main()
