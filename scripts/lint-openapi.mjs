/** Redocly's and Spectral's rules over the committed OpenAPI document: `npm run lint:openapi`. They are fetched when asked for. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"

const document = path.join(import.meta.dirname, "../packages/http/openapi.json")
const folder = mkdtempSync(path.join(tmpdir(), "slipway-lint-openapi-"))
const ruleset = path.join(folder, "spectral.json")
writeFileSync(ruleset, JSON.stringify({ extends: "spectral:oas" }))

try {
  for (const [name, ...args] of [
    ["@redocly/cli@2.77.0", "lint", document],
    ["@stoplight/spectral-cli@6.16.3", "lint", "--ruleset", ruleset, document]
  ]) {
    process.stdout.write(`${name}\n`)
    const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" }
    const { status } = spawnSync("npx", ["--yes", name, ...args], { cwd: folder, env, stdio: "inherit" })
    if (status !== 0) process.exitCode = 1
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
