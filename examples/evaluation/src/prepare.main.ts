/** `npm run prepare-tasks -- FOLDER`: makes a git repository with twenty faults, and `tasks.jsonl` beside it. */
import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import type { Task } from "./Task.ts"
import { type Exercise, exercises } from "./Toolbox.ts"

const folder = path.resolve(process.argv[2] ?? "toolbox")
const repository = path.join(folder, "toolbox")

/** The directive that writes a file. A bracket that would end it is escaped, or has a space behind it, which is dropped. */
const writing = (file: string, content: string) => `[[write path=${file} content=${content.replaceAll("]]", "]\\]")} ]]`

// The same commit each time, on any machine.
const env = {
  PATH: process.env["PATH"],
  HOME: folder,
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "Toolbox",
  GIT_AUTHOR_EMAIL: "toolbox@example.com",
  GIT_COMMITTER_NAME: "Toolbox",
  GIT_COMMITTER_EMAIL: "toolbox@example.com",
  GIT_AUTHOR_DATE: "2026-01-01T00:00:00Z",
  GIT_COMMITTER_DATE: "2026-01-01T00:00:00Z"
}
const git = (...args: ReadonlyArray<string>) => execFileSync("git", args, { cwd: repository, env, encoding: "utf8" })

const testOf = ({ holds, name }: Exercise, more: string) =>
  `import { deepEqual, equal } from "node:assert/strict"
import { test } from "node:test"
import { ${name} } from "../src/${name}.mjs"

test("${name}: keeps what it does", () => { ${holds}; void deepEqual; void equal })
${more}`

const fixOf = ({ fails, name }: Exercise) => `test("${name}: is fixed", () => { ${fails} })\n`

for (const part of ["src", "test"]) mkdirSync(path.join(repository, part), { recursive: true })
for (const exercise of exercises) {
  writeFileSync(path.join(repository, "src", `${exercise.name}.mjs`), `${exercise.faulty}\n`)
  writeFileSync(path.join(repository, "test", `${exercise.name}.test.mjs`), testOf(exercise, ""))
}
git("init", "--quiet", "--initial-branch=main")
git("add", "--all")
git("commit", "--quiet", "--message", "Functions")
const base_commit = git("rev-parse", "HEAD").trim()

/** The patch of a change that is then taken back. */
const patchOf = (file: string, content: string) => {
  writeFileSync(path.join(repository, file), content)
  const patch = git("diff")
  git("checkout", "--quiet", "--", file)
  return patch
}

const tasks = exercises.map((exercise): Task => {
  const { name, problem, script, written } = exercise
  return {
    instance_id: `toolbox-${name}`,
    repo: "acme/toolbox",
    base_commit,
    problem_statement: `${problem}\n\n${script ?? writing(`src/${name}.mjs`, written ?? "")}`,
    test_patch: patchOf(`test/${name}.test.mjs`, testOf(exercise, fixOf(exercise))),
    FAIL_TO_PASS: [`${name}: is fixed`],
    PASS_TO_PASS: [`${name}: keeps what it does`],
    test_command: `node --test --test-reporter=tap test/${name}.test.mjs`
  }
})
const file = path.join(folder, "tasks.jsonl")
writeFileSync(file, tasks.map((task) => `${JSON.stringify(task)}\n`).join(""))
process.stdout.write(`${tasks.length} tasks are in ${file}, their repository in ${repository}\n`)
