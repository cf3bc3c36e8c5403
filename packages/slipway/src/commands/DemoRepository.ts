/** The repository of the demo, and the sample to try things with: a small one with some history, made by git as anybody would. */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { mkdir, writeFile } from "node:fs/promises"
import path from "node:path"
import { promisify } from "node:util"

const run = promisify(execFile)

const history: ReadonlyArray<{ readonly message: string; readonly files: Readonly<Record<string, string>> }> = [
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

interface DemoRepository {
  readonly path: string
  readonly commits: number
  readonly files: number
}

/** Makes the repository in `folder`. The machine's own git configuration is left out: its hooks and signing are not ours. */
export const make = (folder: string) =>
  Effect.promise(async (): Promise<DemoRepository> => {
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
    for (const { files, message } of history) {
      for (const [name, content] of Object.entries(files)) {
        await mkdir(path.dirname(path.join(folder, name)), { recursive: true })
        await writeFile(path.join(folder, name), content)
      }
      await git("add", "--all")
      await git("commit", "--quiet", "--message", message)
    }
    return { path: folder, commits: history.length, files: new Set(history.flatMap(({ files }) => Object.keys(files))).size }
  })
