/**
 * Applies a patch to the task's commit, adds the tests, and runs them. The tests run code of an agent: `runIn` names the program that
 * isolates them.
 */
import { execFile } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import type { Task } from "./Task.ts"

export interface Score {
  readonly solved: boolean
  /** Why not; empty if it is solved. */
  readonly why: string
}

export interface Options {
  /** The address of a repository for `git clone`. */
  readonly addressOf: (repo: string) => string
  /** For tasks without a command of their own. */
  readonly testCommand: string | undefined
  /** A command that runs the words behind it, in the folder `{}`; empty: the tests run on this machine. */
  readonly runIn: ReadonlyArray<string>
  readonly minutes: number
}

interface Ended {
  readonly code: number
  readonly output: string
}

const MAX_OUTPUT = 64 * 2 ** 20

/** Nothing of this program's environment is inherited, such as its key. */
const run = (cwd: string, [program = "", ...args]: ReadonlyArray<string>, { input = "", millis = 300_000 } = {}): Promise<Ended> =>
  new Promise((resolve) => {
    const env = { PATH: process.env["PATH"], HOME: cwd, GIT_TERMINAL_PROMPT: "0", GIT_CONFIG_NOSYSTEM: "1" }
    const child = execFile(
      program,
      args,
      { cwd, env, timeout: millis, maxBuffer: MAX_OUTPUT, killSignal: "SIGKILL" },
      (error, out, err) => resolve({ code: error === null ? 0 : 1, output: `${out}\n${err}` })
    )
    child.stdin?.on("error", () => undefined)
    child.stdin?.end(input)
  })

const TAP = /^ *(?<not>not )?ok \d+ - (?<name>.+?)(?: # .*)?$/u
const PYTEST = /^(?<result>PASSED|FAILED|ERROR|XFAIL|XPASS|SKIPPED) (?<name>\S+)/u

/** Whether each test passed, by its name. A test that failed once did not pass. */
export const resultsOf = (output: string): ReadonlyMap<string, boolean> => {
  const results = new Map<string, boolean>()
  for (const line of output.split(/\r?\n/u)) {
    const { name = "", not, result } = (TAP.exec(line) ?? PYTEST.exec(line))?.groups ?? {}
    if (name === "") continue
    const passed = result === undefined ? not === undefined : result === "PASSED" || result === "XFAIL"
    results.set(name, passed && results.get(name) !== false)
  }
  return results
}

/** The files of a patch. */
export const filesOf = (
  patch: string
): ReadonlyArray<string> => [
  ...new Set(Array.from(patch.matchAll(/^(?:---|\+\+\+) [ab]\/(.+)$/gmu), ([, file = ""]) => file.replace(/\t$/u, "")))
]

const unsolved = (why: string): Score => ({ solved: false, why })

const namesOf = (names: ReadonlyArray<string>) =>
  names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ")

export const score = async (task: Task, patch: string, { addressOf, minutes, runIn, testCommand }: Options): Promise<Score> => {
  const command = task.test_command ?? testCommand
  if (command === undefined) throw new Error(`${task.instance_id} has no test_command: give one with --test-command`)
  if (patch === "") return unsolved("no changes")
  const folder = await mkdtemp(path.join(tmpdir(), "evaluation-"))
  try {
    const git = (args: ReadonlyArray<string>, input = "") => run(folder, ["git", ...args], { input })
    const cloned = await git(["clone", "--quiet", "--no-checkout", addressOf(task.repo), "tree"])
    const inTree = (...args: ReadonlyArray<string>) => ["-C", "tree", ...args]
    const checkedOut = cloned.code === 0 ? await git(inTree("checkout", "--quiet", "--detach", task.base_commit)) : cloned
    if (checkedOut.code !== 0) throw new Error(`${task.repo} at ${task.base_commit} cannot be had: ${checkedOut.output.trim()}`)
    // The tests are the task's, whatever the agent made of these files.
    const without = filesOf(task.test_patch).map((file) => `--exclude=${file}`)
    if ((await git(inTree("apply", ...without), patch)).code !== 0) return unsolved("the patch does not apply")
    if ((await git(inTree("apply"), task.test_patch)).code !== 0) return unsolved("the tests do not apply")
    const tree = path.join(folder, "tree")
    const words = [...runIn.map((word) => word.replaceAll("{}", tree)), "sh", "-c", command]
    const { output } = await run(tree, words, { millis: 60_000 * minutes })
    const results = resultsOf(output)
    const missed = task.FAIL_TO_PASS.filter((name) => results.get(name) !== true)
    const broken = task.PASS_TO_PASS.filter((name) => results.get(name) !== true)
    if (missed.length > 0) return unsolved(`fails: ${namesOf(missed)}`)
    return broken.length > 0 ? unsolved(`broke: ${namesOf(broken)}`) : { solved: true, why: "" }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
