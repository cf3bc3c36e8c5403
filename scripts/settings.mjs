/** Looks whether docs/settings.md says what the settings are (`npm run check` does); `npm run docs:settings` writes it so. */
import { readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { written } from "../packages/slipway/src/settings/Page.ts"

const page = path.resolve(import.meta.dirname, "../docs/settings.md")
const text = readFileSync(page, "utf8")
const wanted = written(text)
if (process.argv.includes("--write")) writeFileSync(page, wanted)
else if (text !== wanted) {
  process.stderr.write("docs/settings.md does not say what the settings are. npm run docs:settings writes it.\n")
  process.exitCode = 1
}
