/** Prints the whole battery as one table when it is over, and leaves it in `test-output/faults.md`. */
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import type { Reporter } from "vitest/node"
import { lineOf } from "./Battery.ts"

const folder = path.resolve(import.meta.dirname, "../../../test-output")

export const table: Reporter = {
  onTestRunEnd: (modules) => {
    const own = modules.filter(({ project }) => project.name === "reliability-faults")
    const rows = own.flatMap((module) =>
      Array.from(module.children.allTests()).flatMap((test) => {
        const row = test.meta().fault
        if (row !== undefined) return [row]
        // It ended before it could say anything: its time was over.
        return test.result().state === "failed" ? [{ what: test.name, done: "not finished", lost: "FAILED", back: "" }] : []
      })
    )
    if (rows.length === 0) return
    const text = `| case | what was done | what was lost | back after |\n|---|---|---|---|\n${rows.map(lineOf).join("")}`
    mkdirSync(folder, { recursive: true })
    writeFileSync(path.join(folder, "faults.md"), text)
    process.stdout.write(`\n${text}\n`)
  }
}
