/**
 * Random operations on the files of a tree and by the agent's own git. They are the commands that people and agents use, so that times,
 * modes and inodes come to be as they do. Many files have equal sizes, and whatever has a second name is soon replaced by it.
 */
import { gitIn, tolerate } from "@slipway/git/testing/Repositories"
import { execFileSync } from "node:child_process"
import { lstatSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from "node:fs"
import { isIgnored, pathOf } from "./Manifest.ts"

/** Numbers below `n`, the same for the same seed. */
export const numbers = (seed: number) => {
  let state = seed >>> 0
  return (n: number): number => {
    state = state + 0x6d2b79f5 >>> 0
    let t = state
    t = Math.imul(t ^ t >>> 15, t | 1)
    t ^= t + Math.imul(t ^ t >>> 7, t | 61)
    return ((t ^ t >>> 14) >>> 0) % n
  }
}
export type Numbers = ReturnType<typeof numbers>

/** Four of each size. */
export const CONTENTS: ReadonlyArray<string> = [
  ...["AAAA\n", "BBBB\n", "CCCC\n", "AA\r\n\n"],
  ...["", "x", "y", "\0"],
  ...["1", "2", "3"].map((word) => `${word} line\n`.repeat(300)),
  `${"1 line\n".repeat(299)}1 line\r`
]

export const PATHS: ReadonlyArray<string> = [
  ...["a", "b", "c", "d", "conf/dev", "conf/now", "conf/deep/er/x", "conf/deep/er/y", "tool", ".node-version", ".node-version.next"],
  ...["with space", "-dash", "quo\"te", "back\\slash", "line\nfeed", "tab\t", "*[x]?", "\xc3\xa9", "e\xcc\x81", "bad-\xff", "trailing "],
  ...[".env", ".env.local", "sub/.env", "out.log", "keep.log", "dist/made", "dist/kept", "new/one", "new/two", "link", "conf/link"]
]

export interface World {
  readonly root: string
  readonly next: Numbers
  /** The operations so far, for the reader of a failure. */
  readonly log: Array<string>
}

const one = <A>(values: ReadonlyArray<A>, next: Numbers): A => {
  const value = values[next(values.length)]
  if (value === undefined) throw new Error("nothing to choose from")
  return value
}

const isFile = (path: Buffer) => tolerate(() => lstatSync(path).isFile()) === true
const isThere = (path: Buffer) => tolerate(() => lstatSync(path)) !== undefined

const filesOf = (root: string): Array<string> => {
  const found: Array<string> = []
  const walk = (folder: string) => {
    for (const entry of readdirSync(pathOf(root, folder), { withFileTypes: true, encoding: "buffer" })) {
      const name = entry.name.toString("latin1")
      if (name === ".git" || name === ".gitignore") continue
      const path = folder === "" ? name : `${folder}/${name}`
      if (entry.isDirectory()) walk(path)
      else found.push(path)
    }
  }
  walk("")
  return found.sort()
}

/** Makes the folders that a path needs, whatever is in their place. */
const makeWay = (root: string, path: string) => {
  const names = path.split("/").slice(0, -1)
  for (let i = 1; i <= names.length; i++) {
    const at = pathOf(root, names.slice(0, i).join("/"))
    if (isThere(at) && tolerate(() => lstatSync(at).isDirectory()) !== true) rmSync(at)
    if (!isThere(at)) mkdirSync(at)
  }
  const at = pathOf(root, path)
  if (tolerate(() => lstatSync(at).isDirectory()) === true) rmSync(at, { recursive: true })
}

const shell = (root: string, script: string, ...paths: ReadonlyArray<string>) => {
  // An argument of Node is text: names that are none come as octal digits.
  const octal = (path: string) => [...Buffer.from(`./${path}`, "latin1")].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("")
  const set = paths.map((path, i) => `p${i + 1}=$(printf '${octal(path)}x'); p${i + 1}=\${p${i + 1}%x}`).join("\n")
  // Two names of one file are not moved over each other.
  tolerate(() => execFileSync("sh", ["-c", `${set}\n${script}`], { cwd: root, stdio: "ignore" }))
}

type Operation = (world: World) => string | undefined

const two = ({ next, root }: World): readonly [string, string] | undefined => {
  const files = filesOf(root).filter((path) => isFile(pathOf(root, path)))
  if (files.length < 2) return undefined
  const from = one(files, next)
  // Nearly always a file with the same number of bytes, if there is any.
  const size = statSync(pathOf(root, from)).size
  const equal = files.filter((path) => path !== from && statSync(pathOf(root, path)).size === size)
  const others = files.filter((path) => path !== from)
  return [from, equal.length > 0 && next(5) > 0 ? one(equal, next) : one(others, next)]
}

const onTwo = (name: string, script: string): Operation => (world) => {
  const paths = two(world)
  if (paths === undefined) return undefined
  shell(world.root, script, ...paths)
  return `${name} ${JSON.stringify(paths)}`
}

const onOne = (name: string, script: string): Operation => ({ next, root }) => {
  const files = filesOf(root).filter((path) => isFile(pathOf(root, path)))
  if (files.length === 0) return undefined
  const path = one(files, next)
  shell(root, script, path)
  return `${name} ${JSON.stringify(path)}`
}

const write: Operation = ({ next, root }) => {
  const [path, content] = [one(PATHS, next), one(CONTENTS, next)]
  makeWay(root, path)
  if (isThere(pathOf(root, path)) && !isFile(pathOf(root, path))) rmSync(pathOf(root, path))
  writeFileSync(pathOf(root, path), Buffer.from(content, "latin1"))
  return `write ${JSON.stringify(path)} ${content.length}`
}

/** In place, with as many bytes and the times that it had: as far as they can be set. */
const rewrite: Operation = ({ next, root }) => {
  const files = filesOf(root).filter((path) => isFile(pathOf(root, path)) && statSync(pathOf(root, path)).size > 0)
  if (files.length === 0) return undefined
  const path = one(files, next)
  const at = pathOf(root, path)
  const { atime, mtime, size } = statSync(at)
  const content = CONTENTS.filter((content) => content.length === size)
  writeFileSync(at, content.length > 0 ? Buffer.from(one(content, next), "latin1") : Buffer.alloc(size, "z"))
  const keepsTime = next(2) === 0
  if (keepsTime) utimesSync(at, atime, mtime)
  return `rewrite ${JSON.stringify(path)}${keepsTime ? " and keep its time" : ""}`
}

const moveAway: Operation = ({ next, root }) => {
  const files = filesOf(root)
  if (files.length === 0) return undefined
  const [from, to] = [one(files, next), one(PATHS, next)]
  if (from === to || from.startsWith(`${to}/`) || to.startsWith(`${from}/`)) return undefined
  makeWay(root, to)
  if (!isThere(pathOf(root, from))) return undefined
  renameSync(pathOf(root, from), pathOf(root, to))
  return `mv ${JSON.stringify([from, to])}`
}

const moveFolder: Operation = ({ next, root }) => {
  const [from, to] = [one(["conf", "conf/deep", "dist", "new", "sub"], next), one(["moved", "conf2", "dist", "new", "a"], next)]
  if (tolerate(() => lstatSync(pathOf(root, from)).isDirectory()) !== true || from === to) return undefined
  rmSync(pathOf(root, to), { recursive: true, force: true })
  renameSync(pathOf(root, from), pathOf(root, to))
  return `mv ${from} ${to}`
}

const link: Operation = ({ next, root }) => {
  const [path, target] = [one(["link", "conf/link", "a", "tool", "new/one", "conf"], next),
    one(["a", "b", "conf", "/etc", "..", "gone"], next)]
  makeWay(root, path)
  rmSync(pathOf(root, path), { force: true })
  symlinkSync(target, pathOf(root, path))
  return `ln -s ${target} ${path}`
}

const remove: Operation = ({ next, root }) => {
  const files = filesOf(root)
  if (files.length === 0) return undefined
  const path = one(files, next)
  rmSync(pathOf(root, path))
  return `rm ${JSON.stringify(path)}`
}

const toFolder: Operation = ({ next, root }) => {
  const files = filesOf(root)
  if (files.length === 0) return undefined
  const path = one(files, next)
  rmSync(pathOf(root, path))
  mkdirSync(pathOf(root, path))
  if (next(2) === 0) writeFileSync(pathOf(root, `${path}/in`), one(CONTENTS, next))
  return `folder in place of ${JSON.stringify(path)}`
}

const toFile: Operation = ({ next, root }) => {
  const folder = one(["conf", "conf/deep", "new", "dist", "sub"], next)
  if (tolerate(() => lstatSync(pathOf(root, folder)).isDirectory()) !== true) return undefined
  rmSync(pathOf(root, folder), { recursive: true })
  writeFileSync(pathOf(root, folder), one(CONTENTS, next))
  return `file in place of ${folder}`
}

/** The agent's git may refuse; what it did until then stays. */
const git = (...choices: ReadonlyArray<ReadonlyArray<string>>): Operation => ({ next, root }) => {
  const args = one(choices, next)
  return `git ${args.join(" ")}${tolerate(() => gitIn(root, ...args)) === undefined ? " (refused)" : ""}`
}

const gitMove: Operation = (world) => {
  const paths = two(world)
  // A file that it moves to an ignored name is no new file to git, and is in the next commit.
  if (paths === undefined || paths.some((path) => /[^ -~]/u.test(path) || isIgnored(path))) return undefined
  const said = tolerate(() => gitIn(world.root, "mv", "-f", "--", ...paths))
  return `git mv -f ${JSON.stringify(paths)}${said === undefined ? " (refused)" : ""}`
}

const OPERATIONS: ReadonlyArray<readonly [weight: number, Operation]> = [
  [4, onTwo("mv -f", "mv -f -- \"$p1\" \"$p2\"")],
  [3, onTwo("swap", "mv -- \"$p1\" ./swapping; mv -- \"$p2\" \"$p1\"; mv ./swapping \"$p2\"")],
  [3, onTwo("cp", "cp -- \"$p1\" \"$p2\"")],
  [4, onTwo("cp -p", "cp -p -- \"$p1\" \"$p2\"")],
  [2, onTwo("cp -p and mv", "cp -p -- \"$p1\" ./copying; mv ./copying \"$p2\"")],
  [1, onTwo("ln -f", "ln -f -- \"$p1\" \"$p2\"")],
  [2, onTwo("touch -r", "touch -r \"$p1\" -- \"$p2\"")],
  [2, onOne("touch -d", "touch -d '2001-02-03 04:05:06' -- \"$p1\"")],
  [1, onOne("touch -d later", "touch -d '2040-02-03 04:05:06' -- \"$p1\"")],
  [2, onOne("chmod +x", "chmod +x -- \"$p1\"")],
  [2, onOne("chmod -x", "chmod -x -- \"$p1\"")],
  [1, onOne("truncate", ": > \"$p1\"")],
  [4, write],
  [4, rewrite],
  [2, moveAway],
  [2, moveFolder],
  [2, link],
  [2, remove],
  [1, toFolder],
  [1, toFile],
  [1, gitMove],
  [2, git(["add", "--all"], ["add", "--update"], ["rm", "-q", "--cached", "a"], ["reset", "-q"])],
  [2, git(["commit", "-q", "-a", "-m", "x"], ["commit", "-q", "-m", "x"], ["commit", "-q", "--amend", "-a", "-m", "y"])],
  [2, git(["checkout", "-q", "--", "."], ["checkout", "-q", "-b", "other"], ["checkout", "-q", "main"], ["checkout", "-q", "--", "a"])],
  [1, git(["stash", "-q"], ["stash", "-q", "-u"], ["stash", "pop", "-q"])],
  [1, git(["reset", "-q", "--hard"], ["reset", "-q", "--soft", "HEAD~"], ["clean", "-q", "-f", "-d"])],
  [1, git(["update-index", "--assume-unchanged", "a"], ["update-index", "--skip-worktree", "b"], ["gc", "-q"], ["status"])]
]
const WEIGHTED = OPERATIONS.flatMap(([weight, operation]) => Array.from({ length: weight }, () => operation))

/** Does one of them. The ignore file stays as it is. */
export const operate = (world: World): void => {
  const did = one(WEIGHTED, world.next)(world)
  if (did !== undefined) world.log.push(did)
}

/** The first commit. */
export const base = (ignore: string): Readonly<Record<string, string>> => ({
  ".gitignore": ignore,
  "a": "AAAA\n",
  "b": "BBBB\n",
  "c": "CCCC\n",
  "d": "AA\r\n\n",
  "conf/dev": "x",
  "conf/now": "y",
  "conf/deep/er/x": "1 line\n".repeat(300),
  "conf/deep/er/y": "2 line\n".repeat(300),
  "tool": "BBBB\n",
  ".node-version": "AAAA\n",
  ".node-version.next": "CCCC\n",
  "with space": "AAAA\n",
  ".env": "BBBB\n",
  "dist/kept": "CCCC\n",
  "empty": ""
})
