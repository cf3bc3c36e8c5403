/** The sample repository, which is also that of the demo: a small one with some history, made by git. */
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Semaphore } from "effect"
import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { mkdir, rename, rm, writeFile } from "node:fs/promises"
import path from "node:path"
import { promisify } from "node:util"

const run = promisify(execFile)

export interface Change {
  readonly message: string
  readonly files: Readonly<Record<string, string>>
}

export const history: ReadonlyArray<Change> = [
  {
    message: "Start the shop",
    files: {
      "README.md": "# Shop\n\nSells three things.\n",
      "src/catalogue.js": "export const things = [\"lamp\", \"chair\", \"table\"]\n",
      ".gitignore": "node_modules\n"
    }
  },
  { message: "Add prices", files: { "src/prices.js": "export const prices = { lamp: 30, chair: 45, table: 120 }\n" } },
  {
    message: "Document how to run it",
    files: { "docs/running.md": "Run `node src/catalogue.js`.\n", "README.md": "# Shop\n\nSells three things. See docs/running.md.\n" }
  }
]

interface Made {
  readonly path: string
  readonly commits: number
  readonly files: number
}

/** Makes the repository in `folder`, without this machine's git configuration, whose hooks and signing must not apply. */
export const make = (folder: string, changes: ReadonlyArray<Change> = history) =>
  Effect.promise(async (): Promise<Made> => {
    const who = { NAME: "Ada", EMAIL: "ada@shop.invalid" }
    const env = {
      PATH: process.env["PATH"] ?? "/usr/bin:/bin",
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_CONFIG_NOSYSTEM: "1",
      ...Object.fromEntries(
        ["AUTHOR", "COMMITTER"].flatMap((role) => Object.entries(who).map(([key, value]) => [`GIT_${role}_${key}`, value]))
      )
    }
    const git = (...args: ReadonlyArray<string>) => run("git", args, { cwd: folder, env })
    await mkdir(folder, { recursive: true })
    await git("init", "--quiet", "--initial-branch=main")
    for (const { files, message } of changes) {
      for (const [name, content] of Object.entries(files)) {
        await mkdir(path.dirname(path.join(folder, name)), { recursive: true })
        await writeFile(path.join(folder, name), content)
      }
      await git("add", "--all")
      await git("commit", "--quiet", "--message", message)
    }
    return { path: folder, commits: changes.length, files: new Set(changes.flatMap(({ files }) => Object.keys(files))).size }
  })

export const NAME = RepoName.make("sample/shop")

const one = Semaphore.makeUnsafe(1)

/** Makes the sample in a data folder once, and returns its folder. Later changes of it stay. */
export const inFolder = (dataDir: string) =>
  one.withPermit(Effect.gen(function*() {
    const folder = path.join(dataDir, NAME)
    if (existsSync(folder)) return folder
    // An interrupted call leaves no half of it under its name.
    const unfinished = `${folder}.unfinished`
    yield* Effect.promise(() => rm(unfinished, { recursive: true, force: true }))
    yield* make(unfinished)
    yield* Effect.promise(() => rename(unfinished, folder))
    return folder
  }))
