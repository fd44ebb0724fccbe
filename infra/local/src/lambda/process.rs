//! Function processes: killed when this process ends, together with the processes that they started.
//!
//! Every child leads a process group of its own, because a `bootstrap` may be a script that starts the function. The group is
//! frozen, thawed and killed as one. It is killed also when its leader ends by itself: Lambda leaves nothing of an environment.
//!
//! A function is started through our own binary ([`become_child`]), which asks the kernel to kill it when its parent dies and
//! then becomes the function by `exec`. Asking between fork and exec would need unsafe code.
//!
//! The kernel takes the *thread* that started a child for its parent, so one thread that lives as long as the spawner starts
//! all children. The signal exists on Linux only; elsewhere a function ends when it next asks the Runtime API and gets no
//! connection. The signal reaches the leader of the group only.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// The first argument that makes our binary a child's launcher.
const MARK: &str = "become-child";
/// The launcher could not start its program; the code that shells use.
const NOT_STARTED: u8 = 127;
/// How often the launcher tries again to execute a file that is open for writing, and the pause before.
const BUSY_TRIES: u32 = 100;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// How children are started.
#[derive(Clone, Debug)]
pub(crate) enum Launcher {
    /// Through this binary, whose `main` calls [`become_child`] first.
    Binary(PathBuf),
    /// Directly: a child may then survive a parent that is killed.
    Direct,
}

impl Launcher {
    pub(crate) fn command(&self, program: &Path) -> Command {
        match self {
            Launcher::Direct => Command::new(program),
            Launcher::Binary(binary) => {
                let mut command = Command::new(binary);
                command.arg(MARK).arg(std::process::id().to_string()).arg(program);
                command
            }
        }
    }
}

/// Turns this process into a function process of the local cloud, if its arguments say so. Returns `None` if they do not,
/// and an exit code if the function cannot be started.
pub fn become_child() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != MARK {
        return None;
    }
    let parent = arguments.next()?;
    let program = arguments.next()?;
    let error = replace(&parent, &program);
    eprintln!("{} does not start: {error}", Path::new(&program).display());
    Some(ExitCode::from(NOT_STARTED))
}

fn replace(parent: &OsString, program: &OsString) -> io::Error {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getppid, set_parent_process_death_signal};
        if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
            return error.into();
        }
        // If the parent died before that request, another process is our parent now.
        let now = getppid().map(|pid| pid.as_raw_nonzero().to_string());
        if now.as_deref().map(AsRef::as_ref) != Some(parent.as_os_str()) {
            return io::Error::other("the local cloud has ended");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
    let mut tries = 0;
    loop {
        let error = Command::new(program).exec();
        // A program that was just copied is busy while a child, which was forked during the copying, has it open for writing: until that
        // child executes its own program.
        if error.kind() != io::ErrorKind::ExecutableFileBusy || tries == BUSY_TRIES {
            return error;
        }
        tries += 1;
        std::thread::sleep(BUSY_PAUSE);
    }
}

/// Starts processes; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Spawner {
    requests: mpsc::Sender<Request>,
}

type Request = (Command, oneshot::Sender<io::Result<Group>>);

impl Spawner {
    /// A spawner for the current runtime.
    pub(crate) fn start() -> Spawner {
        let (requests, queue) = mpsc::channel::<Request>();
        let runtime = tokio::runtime::Handle::current();
        std::thread::spawn(move || {
            let _runtime = runtime.enter();
            for (command, answer) in queue {
                // If nobody waits any more, dropping the group kills it.
                answer.send(spawn(command)).unwrap_or_default();
            }
        });
        Spawner { requests }
    }

    /// Starts a process with piped output, in a group of its own, so that Ctrl-C in the terminal does not reach it.
    pub(crate) async fn spawn(&self, command: Command) -> io::Result<Group> {
        let gone = || io::Error::other("the spawner has ended");
        let (answer, spawned) = oneshot::channel();
        self.requests.send((command, answer)).map_err(|_| gone())?;
        spawned.await.map_err(|_| gone())?
    }
}

fn spawn(mut command: Command) -> io::Result<Group> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let id = child.id().and_then(|id| Pid::from_raw(id as i32));
    let id = id.ok_or_else(|| io::Error::other("it ended at once"))?;
    Ok(Group {
        child,
        id,
        ended: false,
    })
}

/// A child and the processes of its group. Dropping it kills all of them.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    /// The id of the child and of the group.
    id: Pid,
    /// From then on the id may belong to another process.
    ended: bool,
}

impl Group {
    pub(crate) fn id(&self) -> Pid {
        self.id
    }

    /// The child's output; the second call returns nothing.
    pub(crate) fn output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits for the child's end, then kills the rest of the group.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        let mut children = signal(SignalKind::child())?;
        // NOWAIT keeps the child a zombie: until it is collected, no other process can get its id.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(self.id), look)?.is_none() {
            children.recv().await;
        }
        self.kill();
        let status = self.child.wait().await;
        self.ended = true;
        status
    }

    /// Kills the whole group.
    pub(crate) fn kill(&self) {
        if !self.ended {
            send(self.id, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to all processes of a group.
pub(crate) fn send(group: Pid, signal: Signal) {
    // A group that is gone needs no signal; `Group::ended` notices its end.
    kill_process_group(group, signal).unwrap_or_default();
}
