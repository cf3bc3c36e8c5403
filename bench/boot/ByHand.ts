/**
 * A good engineer's script instead of a service: a worktree of the repository, the agent in it, its handshake. It leaves out the reasons
 * for a service: it keeps no event, asks for no approval before a tool runs, saves nothing to go on from, and leaves its agent behind when
 * it dies. In a box of bubblewrap it leaves out the limits: control groups, a user and a disk of its own.
 */
import type { BoxCommand } from "@slipway/domain/sandbox/ports/SandboxHost"
import { type ChildProcess, execFile, spawn } from "node:child_process"
import { closeSync, existsSync, lstatSync, mkdirSync, openSync, readlinkSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"

/** Runs it to its end. */
export const run = (program: string, args: ReadonlyArray<string>, cwd: string): Promise<string> =>
  new Promise((resolve, reject) => {
    execFile(program, args, { cwd }, (error, stdout, stderr) => error === null ? resolve(stdout) : reject(new Error(stderr)))
  })

/** One after the other: `git worktree` may fail while another one makes or removes a worktree of the same repository (git 2.39). */
let worktrees: Promise<unknown> = Promise.resolve()
const worktree = (repository: string, ...args: ReadonlyArray<string>): Promise<string> => {
  const mine = worktrees.then(() => run("git", ["worktree", ...args], repository))
  worktrees = mine.catch(() => {})
  return mine
}

/** Lines of JSON on the standard input and output of an agent. Requests are answered by their id. */
const converse = (child: ChildProcess) => {
  const waiting = new Map<number, { readonly resolve: (result: unknown) => void; readonly reject: (error: Error) => void }>()
  let rest = ""
  let id = 0
  const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()))
  void gone.then(() => {
    for (const { reject } of waiting.values()) reject(new Error("the agent ended"))
  })
  child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) {
      const { error, id, result } = JSON.parse(line) as { readonly id?: number; readonly result?: unknown; readonly error?: unknown }
      const asked = id === undefined ? undefined : waiting.get(id)
      if (id === undefined || asked === undefined) continue
      waiting.delete(id)
      if (error === undefined) asked.resolve(result)
      else asked.reject(new Error(JSON.stringify(error)))
    }
  })
  const notify = (method: string, params: object) => child.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", method, params })}\n`)
  const ask = <A>(method: string, params: object) =>
    new Promise<A>((resolve, reject) => {
      waiting.set(++id, { resolve: (result) => resolve(result as A), reject })
      child.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`)
    })
  return { ask, notify, gone }
}

/** The folders of one run, and the branch of its worktree. */
export interface Place {
  readonly repository: string
  readonly folder: string
  readonly branch: string
}

const treeOf = ({ folder }: Place) => path.join(folder, "workspace/shop")

export const checkOut = async (place: Place): Promise<string> => {
  mkdirSync(path.join(place.folder, "workspace"), { recursive: true })
  await worktree(place.repository, "add", "--quiet", "-b", place.branch, treeOf(place), "main")
  return treeOf(place)
}

/** Commits all that is new in the worktree and pushes its branch. */
export const publish = async (place: Place): Promise<void> => {
  const git = (...args: ReadonlyArray<string>) => run("git", args, treeOf(place))
  await git("add", "--all")
  await git("-c", "user.name=Agent", "-c", "user.email=agent@sandbox.invalid", "commit", "--quiet", "--message", "What the agent did")
  await git("push", "--quiet", "origin", place.branch)
}

export const remove = async (place: Place): Promise<void> => {
  await worktree(place.repository, "remove", "--force", treeOf(place))
  // Unlike `git branch -D`, it leaves the configuration alone, which others may be about to lock.
  await run("git", ["update-ref", "-d", `refs/heads/${place.branch}`], place.repository)
  rmSync(place.folder, { recursive: true, force: true })
}

/** The arguments of `bwrap` that keep in a box of ours, as `SECURITY.md` has them; what only limits (see above) is not among them. */
export interface Box {
  /** Seen by the agent, read-only. */
  readonly programs: ReadonlyArray<string>
  /** The filter of system calls, compiled; that of a service. */
  readonly filter: string
}

/** Folders that are links into `/usr` on most systems. */
const system = ["/bin", "/sbin", "/lib", "/lib64"].filter((name) => existsSync(name)).flatMap((name) =>
  lstatSync(name).isSymbolicLink() ? ["--symlink", readlinkSync(name), name] : ["--ro-bind", name, name]
)

const bubblewrap = ({ programs }: Box, home: string, { folder, repository }: Place): ReadonlyArray<string> => [
  ...["--seccomp", "3", "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"],
  ...["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL"],
  ...["--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--ro-bind", "/usr", "/usr", ...system],
  ...["alternatives", "ld.so.cache", "nsswitch.conf", "ssl/certs", "ca-certificates", "localtime", "passwd", "group", "hosts"].flatMap(
    (name) => ["--ro-bind-try", `/etc/${name}`, `/etc/${name}`]
  ),
  ...["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm", "--tmpfs", "/tmp"],
  ...programs.flatMap((name) => ["--ro-bind", name, name]),
  // A worktree is of no use without its repository, which is why a box of ours has none.
  ...["--ro-bind", repository, repository, "--bind", home, home, "--bind", path.join(folder, "workspace"), path.join(folder, "workspace")],
  ...["--chdir", path.join(folder, "workspace"), "--remount-ro", "/dev", "--remount-ro", "/", "--"]
]

export interface Agent {
  readonly dialect: "acp" | "codex"
  /** As its profile says, given its home. */
  readonly launch: (home: string, workspace: string) => BoxCommand
}

export interface Session {
  /** Sends the prompt. Answers at its end; codex's at once. */
  readonly prompt: (text: string) => Promise<unknown>
  /** Ends it with all that it runs. */
  readonly end: () => Promise<void>
}

/** Starts it, and answers when a session is open. */
export const open = async ({ dialect, launch }: Agent, place: Place, box: Box | null): Promise<Session> => {
  const home = path.join(place.folder, "home")
  const workspace = path.join(place.folder, "workspace")
  const { args = [], command, env = {}, homeFiles = {} } = launch(home, workspace)
  mkdirSync(home, { recursive: true })
  for (const [name, content] of Object.entries(homeFiles)) {
    mkdirSync(path.dirname(path.join(home, name)), { recursive: true })
    writeFileSync(path.join(home, name), content)
  }
  const filter = box === null ? null : openSync(box.filter, "r")
  const [program, ...rest] = box === null ? [command, ...args] : ["bwrap", ...bubblewrap(box, home, place), command, ...args]
  const child = spawn(program, rest, {
    cwd: workspace,
    env: { PATH: process.env["PATH"], HOME: home, TMPDIR: "/tmp", LANG: "C.UTF-8", TERM: "dumb", ...env },
    stdio: ["pipe", "pipe", "ignore", ...filter === null ? [] : [filter]]
  })
  if (filter !== null) closeSync(filter)
  const { ask, gone, notify } = converse(child)
  const end = async () => {
    // With bubblewrap, all in its box end.
    child.kill("SIGKILL")
    await gone
  }
  if (dialect === "acp") {
    await ask("initialize", { protocolVersion: 1, clientCapabilities: { fs: { readTextFile: false, writeTextFile: false } } })
    const { sessionId } = await ask<{ readonly sessionId: string }>("session/new", { cwd: workspace, mcpServers: [] })
    return { prompt: (text) => ask("session/prompt", { sessionId, prompt: [{ type: "text", text }] }), end }
  }
  await ask("initialize", { clientInfo: { name: "script", title: "Script", version: "1.0.0" }, capabilities: { experimentalApi: true } })
  notify("initialized", {})
  const settings = { cwd: workspace, approvalPolicy: "never", sandbox: "danger-full-access" }
  const { thread } = await ask<{ readonly thread: { readonly id: string } }>("thread/start", settings)
  return { prompt: (text) => ask("turn/start", { threadId: thread.id, input: [{ type: "text", text, text_elements: [] }] }), end }
}
