/**
 * The cost of importing the domain's rules beyond a bare Node: processes that import them beside processes that import nothing, in turns.
 * As they are published, compiled and installed, which the limits are for; and as sources, whose types Node strips itself: that alone is
 * some 20 ms and 17 MB (2026-11-24), whatever is imported.
 */
import { execFile } from "node:child_process"
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { promisify } from "node:util"
import type { Measurement } from "../Measurement.ts"

const run = promisify(execFile)

const ROOT = path.resolve(import.meta.dirname, "../..")
const DOMAIN = path.join(ROOT, "packages/domain")

/** Decide and evolve of sandboxes, turns and approvals, their limits and leases, attribution, which files may be read. */
const RULES = [
  "sandbox/rules/Sandbox",
  "sandbox/rules/Turn",
  "sandbox/rules/Approval",
  "sandbox/rules/Command",
  "sandbox/rules/SystemCommand",
  "sandbox/rules/Transition",
  "sandbox/rules/TimeLimit",
  "sandbox/rules/LeaseRules",
  "partner/rules/Attribution",
  "source/rules/FileRules"
]

/** Milliseconds that are to be reached, of CPU time: on a quiet machine the time that passes is less. */
const MOST_MS = 100
const MOST_MB = 15

interface Cost {
  /** CPU time of the process from its start. */
  readonly cpuMs: number
  /** Wall-clock time from its start. */
  readonly wallMs: number
  readonly rssMb: number
}

const REPORT = `
const { system, user } = process.cpuUsage()
const { rss } = process.memoryUsage()
process.stdout.write(JSON.stringify({ cpuMs: (user + system) / 1000, wallMs: performance.now(), rssMb: rss / 2 ** 20 }))
`

const program = async (file: string, specifiers: ReadonlyArray<string>) => {
  await writeFile(file, specifiers.map((specifier) => `import ${JSON.stringify(specifier)}\n`).join("") + REPORT)
  return file
}

const costOf = async (file: string): Promise<Cost> => JSON.parse((await run(process.execPath, [file])).stdout)

/** The package as `npm run pack` compiles it, where its users have it. */
const install = async (folder: string) => {
  const modules = path.join(folder, "node_modules")
  const domain = path.join(modules, "@slipway/domain")
  await mkdir(domain, { recursive: true })
  await symlink(path.join(ROOT, "node_modules/effect"), path.join(modules, "effect"))
  await writeFile(path.join(domain, "package.json"), JSON.stringify({ name: "@slipway/domain", type: "module" }))
  const options = ["--rootDir", DOMAIN, "--outDir", domain, "--declaration", "false", "--sourceMap", "false"]
  await run(path.join(ROOT, "node_modules/.bin/tsc"), ["-p", path.join(DOMAIN, "tsconfig.build.json"), ...options])
  return domain
}

const median = (values: ReadonlyArray<number>): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0

/** Rows `rules-ms` and `rules-mb`; beside them, held to no limit, the same of the sources. */
export const measure = async (
  { only, quick }: { readonly quick: boolean; readonly only: ReadonlySet<string> }
): Promise<ReadonlyArray<Measurement>> => {
  const folder = await mkdtemp(path.join(tmpdir(), "slipway-imports-"))
  try {
    const installed = await install(folder)
    const bare = await program(path.join(folder, "bare.mjs"), [])
    const programs = [
      {
        form: "published",
        file: await program(path.join(folder, "published.mjs"), RULES.map((rule) => path.join(installed, "src", `${rule}.js`)))
      },
      {
        form: "sources",
        file: await program(path.join(folder, "sources.mjs"), RULES.map((rule) => path.join(DOMAIN, "src", `${rule}.ts`)))
      }
    ]
    const added = programs.map((): Array<Cost> => [])
    // The first round only warms the disk.
    for (let round = -1; round < (quick ? 5 : 15); round++) {
      const without = await costOf(bare)
      for (const [i, { file }] of programs.entries()) {
        const { cpuMs, rssMb, wallMs } = await costOf(file)
        if (round < 0) continue
        added[i]?.push({ cpuMs: cpuMs - without.cpuMs, wallMs: wallMs - without.wallMs, rssMb: rssMb - without.rssMb })
      }
    }
    return programs.flatMap(({ form }, i): ReadonlyArray<Measurement> => {
      const costs = added[i] ?? []
      const isHeld = form === "published"
      const id = isHeld ? "rules" : "rules-sources"
      const what = `import of the domain's rules beyond bare Node, ${form}`
      return [
        {
          id: `${id}-ms`,
          what: `${what}: CPU time`,
          unit: "ms",
          better: "lower",
          ours: { name: form, samples: costs.map(({ cpuMs }) => cpuMs) },
          theirs: null,
          reach: isHeld ? { most: MOST_MS } : {},
          notes: { "ms that passed": Number(median(costs.map(({ wallMs }) => wallMs)).toFixed(1)) }
        },
        {
          id: `${id}-mb`,
          what: `${what}: memory`,
          unit: "MB",
          better: "lower",
          ours: { name: form, samples: costs.map(({ rssMb }) => rssMb) },
          theirs: null,
          reach: isHeld ? { most: MOST_MB } : {}
        }
      ]
    }).filter(({ id }) => only.has(id))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
