import { assert, describe, it } from "@effect/vitest"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { readFileSync } from "node:fs"
import path from "node:path"
import { abilities, agents, render } from "./Abilities.ts"

const page = readFileSync(path.resolve(import.meta.dirname, "../../../../docs/operating/models.md"), "utf8")

describe("the table of what agents can do", () => {
  const text = render(({ lacks }, agent) => lacks(agent) === undefined ? "has" : "lacks")

  it("is in the documentation as the profiles of the agents say it", () => {
    assert.include(page, text, "Put what `npm run test:agents` prints into docs/operating/models.md.")
  })

  it("has every agent with a program, and a reason for each thing that one cannot do", () => {
    assert.deepStrictEqual([...agents].sort(), ["claude", "codex", "grok", "opencode"])
    const without = abilities.flatMap(({ lacks, what }) =>
      agents.filter((agent) => lacks(agent) !== undefined).map((agent) => [agent, what])
    )
    assert.lengthOf(text.match(/no \(\d\)/gu) ?? [], without.length)
    assert.notInclude(text, "undefined")
  })

  it("says what failed and what was not run", () => {
    const some = render(({ what }, agent) => what === "question" && agent === "claude" ? "FAILED" : "not run")
    assert.match(some, /^\| question \|.* FAILED \|/mu)
    assert.notMatch(some, /yes|no \(/u)
  })
})

describe("the page of the MCP server", () => {
  const tested = readFileSync(path.resolve(import.meta.dirname, "../../../../docs/mcp-server.md"), "utf8")

  it.each([["claude", "Claude Code"], ["codex", "Codex"], ["grok", "Grok"], ["opencode", "opencode"]])(
    "names the version of %s that SlipwayAsTools.real.ts runs",
    (name, called) => assert.include(tested, `| ${called} | ${profiles[name]?.program?.version} |`)
  )
})
