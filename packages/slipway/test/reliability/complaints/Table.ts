/** Says at the end of a run of which complaints it holds. A test is called after its complaint, a colon, and what holds. */
import type { Reporter, TestModule } from "vitest/node"

const words = { passed: "held", failed: "NOT HELD", skipped: "not tested here", pending: "not tested" } as const

const row = (name: string, what: string) => `  ${what.padEnd(15)} ${name}\n`

export const table: Reporter = {
  onTestRunEnd: (modules: ReadonlyArray<TestModule>) => {
    const own = modules.filter(({ project }) => project.name === "reliability-complaints")
    if (own.length === 0) return
    const rows = own.flatMap((module) => [...module.children.allTests()]).map((test) => {
      const [complaint = ""] = test.name.split(": ")
      return row(complaint, words[test.result().state])
    })
    process.stdout.write(`\nComplaints of others\n${rows.join("")}\n`)
  }
}
