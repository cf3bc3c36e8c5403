/**
 * The abilities of each real agent, from the tests of a run: `npm run test:agents` prints it as a table when it is over, and leaves it in
 * `test-output/agents.md`. docs/operating/models.md has the same table, which `Abilities.test.ts` compares with the profiles.
 */
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { withoutSubAgents } from "@slipway/agents/testing/Scenarios"
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import type { Reporter, TestModule, Vitest } from "vitest/node"

/** The agents of the table: all with a program of their own. */
export const agents = Object.keys(profiles).filter((name) => profiles[name]?.program !== null)

interface Ability {
  readonly what: string
  /** Why an agent lacks it; absent: it has it. */
  readonly lacks: (agent: string) => string | undefined
  /** Names of the tests that show it, and of those that show what happens without it. */
  readonly tests: { readonly has: ReadonlyArray<RegExp>; readonly lacks?: RegExp }
  /** The file of these tests: one of each agent, or one for all, whose tests begin with the agent's name. */
  readonly file: "real" | "Files"
}

const lacksQuestions = (agent: string) =>
  profiles[agent]?.capabilities.asksQuestions === true ? undefined : "over ACP it has no tool that asks (1.18.33), and is told so"

export const abilities: ReadonlyArray<Ability> = [
  {
    what: "image in a prompt",
    lacks: (agent) => profiles[agent]?.capabilities.images === true ? undefined : "its `initialize` says `image: false` (1.0.41)",
    tests: { has: [/gives its model the very image of its prompt$/u], lacks: /gets no prompt with an image/u },
    file: "Files"
  },
  { what: "file in a prompt", lacks: () => undefined, tests: { has: [/reads the file of its prompt in its home$/u] }, file: "Files" },
  {
    what: "question",
    lacks: lacksQuestions,
    tests: {
      has: [/asks a person in the mode auto, /u, /asks a person in the mode prompt, /u, /hears what a person writes, /u],
      lacks: /never has a question answered by an approval$/u
    },
    file: "real"
  },
  {
    what: "interrupt during a question",
    lacks: lacksQuestions,
    tests: {
      has: [/ends a turn that is interrupted during a question, and takes the next prompt$/u],
      lacks: /never has a question answered by an approval$/u
    },
    file: "real"
  },
  {
    what: "MCP tool, allowed",
    lacks: () => undefined,
    tests: { has: [/calls a tool of an MCP server, whose credential is nowhere in the box$/u] },
    file: "real"
  },
  {
    what: "MCP tool, asked about",
    lacks: () => undefined,
    tests: {
      has: [/asks once about a tool of an MCP server, and obeys: approve$/u, /asks once about a tool of an MCP server, and obeys: deny$/u]
    },
    file: "real"
  },
  { what: "MCP tool, denied", lacks: () => undefined, tests: { has: [/does not call a denied tool of an MCP server$/u] }, file: "real" },
  {
    what: "approval of a sub-agent's call",
    lacks: (agent) =>
      withoutSubAgents.has(agent) ? "over ACP it asks for no sub-agent's call (1.18.33), so there are none in `prompt` mode" : undefined,
    tests: {
      has: [/lets sub-agents ask as it does, and shows what became of their calls$/u, /leaves undone what a sub-agent was denied$/u],
      lacks: /has no sub-agents where it would ask$/u
    },
    file: "real"
  }
]

/** A cell: what a run found. `lacks`: the tests of an agent that lacks it passed. */
export type Found = "has" | "lacks" | "FAILED" | "not run"

/** The table with its notes. `found`: of an ability and an agent. */
export const render = (found: (ability: Ability, agent: string) => Found): string => {
  const notes: Array<string> = []
  const cell = (ability: Ability, agent: string) => {
    const result = found(ability, agent)
    if (result !== "lacks") return result === "has" ? "yes" : result
    const note = `${agent}: ${ability.lacks(agent)}`
    if (!notes.includes(note)) notes.push(note)
    return `no (${notes.indexOf(note) + 1})`
  }
  const rows = abilities.map((ability) => `| ${[ability.what, ...agents.map((agent) => cell(ability, agent))].join(" | ")} |`)
  const head = [`| | ${agents.join(" | ")} |`, `|---|${agents.map(() => "---|").join("")}`]
  return [...head, ...rows, "", ...notes.map((note, i) => `${i + 1}. ${note}`)].join("\n")
}

/** The results of the tests of an ability; `null`: a test is missing. */
const resultsOf = (modules: ReadonlyArray<TestModule>, { file, lacks, tests }: Ability, agent: string) => {
  const own = modules.filter(({ moduleId }) => path.basename(moduleId) === (file === "real" ? `${agent}.real.ts` : `${file}.real.ts`))
  if (own.length === 0) return []
  const all = own.flatMap((module) => [...module.children.allTests()])
    .filter(({ name }) => file === "real" || name.startsWith(`${agent} `))
  const wanted = lacks(agent) === undefined ? tests.has : [tests.lacks ?? /(?!)/u]
  const matching = wanted.map((pattern) => all.filter(({ name }) => pattern.test(name)))
  return matching.some((some) => some.length === 0) ? null : matching.flat().map((test) => test.result().state)
}

const folder = path.resolve(import.meta.dirname, "../../test-output")

class Table implements Reporter {
  private vitest: Vitest | undefined

  onInit(vitest: Vitest) {
    this.vitest = vitest
  }

  onTestRunEnd(modules: ReadonlyArray<TestModule>) {
    const own = modules.filter(({ project }) => project.name === "agents")
    const isReal = own.some(({ moduleId }) => agents.some((agent) => path.basename(moduleId) === `${agent}.real.ts`))
    if (!isReal) return
    const missing: Array<string> = []
    const text = render((ability, agent) => {
      const results = resultsOf(own, ability, agent)
      // `AGENTS` may leave an agent out of the tests for all.
      if (results === null && own.some(({ moduleId }) => path.basename(moduleId) === `${agent}.real.ts`)) {
        missing.push(`${agent}: ${ability.what}`)
      }
      if (results === null || results.length === 0) return "not run"
      if (results.includes("failed")) return "FAILED"
      return results.every((state) => state === "passed") ? ability.lacks(agent) === undefined ? "has" : "lacks" : "not run"
    })
    mkdirSync(folder, { recursive: true })
    writeFileSync(path.join(folder, "agents.md"), `${text}\n`)
    process.stdout.write(`\nWhat the agents of this run can do\n\n${text}\n\n`)
    // A renamed test would leave its cell empty for ever. `-t` leaves tests out on purpose.
    if (missing.length > 0 && this.vitest?.config.testNamePattern === undefined) {
      process.stdout.write(`No test was found for ${missing.join(", ")}: see packages/slipway/test/agents/Abilities.ts\n`)
      process.exitCode = 1
    }
  }
}

/** Prints the table at the end of a run. */
export const table: Reporter = new Table()
