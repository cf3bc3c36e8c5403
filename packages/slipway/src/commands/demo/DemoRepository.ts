/** The repository of the demo, which is also the sample: a small one with some history, made by git. */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { mkdir, writeFile } from "node:fs/promises"
import path from "node:path"
import { promisify } from "node:util"
import { DEPENDENCIES, type Registry } from "./DemoRegistry.ts"

const run = promisify(execFile)

interface Change {
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

export const ENVIRONMENT_FILE = ".slipway/environment.json"
export const ENVIRONMENT = JSON.stringify({ setup: ["npm ci"], cache: ["node_modules"], onFailure: "fail" })

const TEST = `const { price } = require("shop-money")
const said = "a table costs " + price(1200)
require("node:assert").equal(said, "a table costs 1,200 EUR")
console.log(said)
`

const MANIFEST = { name: "shop", version: "1.0.0", scripts: { test: "node test/prices.js" }, dependencies: DEPENDENCIES }

/** The change that adds dependencies on packages of the registry. `url`: the registry's address for boxes. */
export const withPackages = ({ cert, lockFile }: Registry, url: string): Change => ({
  message: "Show prices with shop-money",
  files: {
    [ENVIRONMENT_FILE]: ENVIRONMENT,
    "package.json": JSON.stringify(MANIFEST),
    "package-lock.json": lockFile("shop", url),
    ".npmrc": `registry=${url}\ncafile=registry.pem\naudit=false\nfund=false\nupdate-notifier=false\n`,
    "registry.pem": cert,
    "test/prices.js": TEST
  }
})

interface DemoRepository {
  readonly path: string
  readonly commits: number
  readonly files: number
}

/** Makes the repository in `folder`, without this machine's git configuration, whose hooks and signing must not apply. */
export const make = (folder: string, changes: ReadonlyArray<Change> = history) =>
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
