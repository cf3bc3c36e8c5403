/** Tasks in the format of SWE-bench: one JSON object a line. */
import { createReadStream } from "node:fs"
import { createInterface } from "node:readline"

export interface Task {
  readonly instance_id: string
  /** `owner/name`. */
  readonly repo: string
  readonly base_commit: string
  /** The prompt. */
  readonly problem_statement: string
  /** The change that adds or changes the tests. The agent does not see it. */
  readonly test_patch: string
  /** Names of tests that fail before the change and must pass after it. */
  readonly FAIL_TO_PASS: ReadonlyArray<string>
  /** Names of tests that must still pass. */
  readonly PASS_TO_PASS: ReadonlyArray<string>
  /** A shell command that prints each test with its result, as TAP or as `pytest -rA` does. SWE-bench has none: see `--test-command`. */
  readonly test_command?: string
}

/** Lists are JSON in a string in SWE-bench's own files. */
const namesOf = (value: unknown): ReadonlyArray<string> => {
  const list: unknown = typeof value === "string" ? JSON.parse(value) : value
  if (!Array.isArray(list) || !list.every((name) => typeof name === "string")) throw new Error("it is no list of names")
  return list
}

const TEXTS = ["instance_id", "repo", "base_commit", "problem_statement", "test_patch"] as const

/** Throws an error that names the line's problem. */
export const parseTask = (line: string): Task => {
  const row: Record<string, unknown> = JSON.parse(line)
  for (const name of TEXTS) if (typeof row[name] !== "string") throw new Error(`${name} is no text`)
  if (!/^[\w.-]+$/u.test(String(row["instance_id"]))) throw new Error("instance_id has characters that a file name may not have")
  if (!/^[0-9a-f]{40,64}$/u.test(String(row["base_commit"]))) throw new Error("base_commit is no commit")
  return {
    ...(row as unknown as Task),
    FAIL_TO_PASS: namesOf(row["FAIL_TO_PASS"]),
    PASS_TO_PASS: namesOf(row["PASS_TO_PASS"] ?? [])
  }
}

export const readTasks = async (file: string): Promise<ReadonlyArray<Task>> => {
  const tasks: Array<Task> = []
  let number = 0
  for await (const line of createInterface({ input: createReadStream(file) })) {
    number++
    if (line.trim() === "") continue
    try {
      tasks.push(parseTask(line))
    } catch (error) {
      throw new Error(`${file}:${number}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  return tasks
}
