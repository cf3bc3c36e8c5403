/**
 * The pages of docs that the code writes: settings, commands, events, errors. Looks whether they say what the code says (`npm run check`
 * does); `npm run docs:reference` writes them so.
 */
import { Effect } from "effect"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { helpPage } from "../packages/slipway/src/HelpPage.ts"
import { written } from "../packages/slipway/src/SettingsPage.ts"
import { errors } from "./reference/errors.mjs"
import { events } from "./reference/events.mjs"

const docs = path.resolve(import.meta.dirname, "../docs")
const fileOf = (name) => path.join(docs, name)
const textOf = (name) => existsSync(fileOf(name)) ? readFileSync(fileOf(name), "utf8") : ""

const pages = {
  "settings.md": written(textOf("settings.md")),
  "cli.md": await Effect.runPromise(helpPage),
  "events.md": events(),
  "errors.md": errors()
}
for (const [name, wanted] of Object.entries(pages)) {
  if (textOf(name) === wanted) continue
  if (process.argv.includes("--write")) writeFileSync(fileOf(name), wanted)
  else {
    process.stderr.write(`docs/${name} does not say what the code says. npm run docs:reference writes it.\n`)
    process.exitCode = 1
  }
}
