/**
 * Makes small mistakes in the pure rules of `packages/domain`, one at a time, and looks whether their tests notice:
 * `npm run mutants`. Nothing is written to the sources: each module is loaded with all its mutants in it, and the tests
 * run once per mutant in long-lived workers. What `mutants.equivalent.json` lists changes nothing anyone could see.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { availableParallelism, tmpdir } from "node:os"
import path from "node:path"
import { parseArgs } from "node:util"
import { createVitest } from "vitest/node"
import { combine, guard, mutate, parse, vocabularies } from "./mutants.operators.mjs"

const HELP = `Usage: npm run mutants -- [--file <Name>]...

  --file <Name>  only the module of this name; may be repeated
  --help         this text

Exits with 1 if a mutant survives, or if an entry of scripts/mutants.equivalent.json is out of date.
`
const { values } = parseArgs({ options: { file: { type: "string", multiple: true }, help: { type: "boolean" } } })
if (values.help) {
  process.stdout.write(HELP)
  process.exit()
}

const domain = path.join(import.meta.dirname, "../packages/domain")
const source = path.join(domain, "src")
/** Tests of rules that need arbitrary histories are in the package of those. */
const testing = path.join(import.meta.dirname, "../packages/testing")
const BATCH = 24
/** Far more than any test of a rule takes; a mutant that waits for ever counts as noticed. */
const PATIENCE_MILLIS = 20_000

/** Modules that import one of these have effects, and contract suites judge them. */
const EFFECTFUL = new Set(["Effect", "Layer", "Stream", "Queue", "PubSub", "Ref", "Scope"])
/** These have both: their pure functions are judged, their services are not. */
const MIXED = new Set(["access/rules/ApiKey.ts"])
/** Shapes of the interface and words around the rules, which other tests hold. Any new module is judged. */
const OTHERS = new Set([
  "text/Text.ts",
  "access/schema/Principal.ts",
  "files/rules/SystemError.ts",
  "files/schema/FileTree.ts",
  "environment/redaction/Forms.ts",
  "environment/redaction/OutputRedactor.ts",
  "environment/redaction/Redaction.ts",
  "environment/redaction/Shapes.ts",
  "sandbox/ports/ActiveSandboxes.ts",
  "models/rules/Budget.ts",
  "models/schema/ModelCatalogue.ts",
  "models/ports/ModelGateway.ts",
  "sandbox/rules/SandboxEvent.ts",
  "ids/SandboxId.ts",
  "models/ports/Spending.ts",
  "source/schema/PullRequest.ts",
  "source/schema/RepoRef.ts"
])
/** Suites for implementations of ports say nothing of a rule. */
const SUITES = /Contract$|Laws$|\.suites$|simulation/u

const filesIn = async (folder) =>
  (await readdir(folder, { recursive: true })).filter((file) => file.endsWith(".ts")).sort().map((file) => path.join(folder, file))
const folders = [source, path.join(domain, "memory"), path.join(domain, "test"), path.join(testing, "src"), path.join(testing, "test")]

/** The file of a module of the two packages by the name that others import it by. */
const exported = (specifier) => {
  const [, owner, name] = /^@slipway\/(domain|testing)\/(.*)$/u.exec(specifier) ?? []
  if (owner === undefined) return specifier
  if (owner === "testing") return path.join(testing, "src", `${name}.ts`)
  return name.startsWith("memory/") ? path.join(domain, `${name}.ts`) : path.join(source, `${name}.ts`)
}

/** Every module of the two packages with what it imports, by path. */
const modules = new Map()
for (const file of (await Promise.all(folders.map(filesIn))).flat()) {
  const text = await readFile(file, "utf8")
  const program = parse(text)
  const imports = program.body.filter(({ source: from }) => from).map(({ importKind, source: { value }, specifiers = [] }) => ({
    from: value.startsWith(".") ? path.join(path.dirname(file), value) : exported(value),
    type: importKind === "type",
    names: specifiers.filter((specifier) => specifier.importKind !== "type").map(({ imported }) => imported?.name)
  }))
  modules.set(file, { text, program, imports })
}

const isPure = ({ imports }) =>
  !imports.some(({ from, names, type }) => from === "effect" && !type && names.some((name) => EFFECTFUL.has(name)))
const words = [...modules].flatMap(([file, { program }]) => file.startsWith(source) ? vocabularies(program) : [])

const reaches = (from, to, seen = new Set()) =>
  from === to ||
  modules.has(from) && !seen.has(from) && seen.add(from) && modules.get(from).imports.some((found) => reaches(found.from, to, seen))
/** The first folder of a rule, or of a test: `sandbox`. */
const aggregateOf = (file) =>
  path.relative([source, path.join(domain, "test"), path.join(testing, "test")].find((root) => file.startsWith(`${root}/`)), file)
    .split("/")[0]
const judges = [...modules.keys()].filter((file) => file.endsWith(".test.ts"))
  .filter((file) => !modules.get(file).imports.some(({ from }) => SUITES.test(from.replace(/\.ts$/u, ""))))

const lineOf = (text, at) => text.slice(0, at).split("\n").length
/** The lines a mutant changes, without their margins. */
const diff = (text, { end, start, to }) => {
  const from = text.lastIndexOf("\n", start - 1) + 1
  const until = text.indexOf("\n", end) < 0 ? text.length : text.indexOf("\n", end)
  const lines = (changed) => changed.split("\n").map((line) => line.trim()).filter(Boolean)
  const [before, after] = [lines(text.slice(from, until)), lines(text.slice(from, start) + to + text.slice(end, until))]
  return { before: before.join(" "), after: after.join(" ") }
}

const mutants = []
const loaded = new Map()
for (const [file, module] of modules) {
  const name = path.relative(source, file)
  const found = mutate(module.text, words)
  const chosen = !name.startsWith("..") && (MIXED.has(name) || isPure(module)) &&
    (values.file?.includes(path.basename(name, ".ts")) ?? !OTHERS.has(name))
  if (!chosen) found.mutants = []
  const near = judges.filter((test) => modules.get(test).imports.some(({ from }) => from === file))
  const far = chosen
    ? judges.filter((test) => !near.includes(test) && aggregateOf(test) === aggregateOf(file) && reaches(test, file))
    : []
  for (const mutant of found.mutants) {
    mutant.n = mutants.length + 1
    mutants.push({ ...mutant, ...diff(module.text, mutant), name, line: lineOf(module.text, mutant.start), near, far, state: "survived" })
  }
  loaded.set(file, judges.includes(file) ? guard(module.text) : combine(module.text, found))
}
if (mutants.length === 0) {
  process.stderr.write("No pure module has such a name.\n")
  process.exit(1)
}

const folder = await mkdtemp(path.join(tmpdir(), "slipway-mutants-"))
const vitest = await createVitest("test", {
  root: domain,
  config: false,
  watch: false,
  isolate: false,
  fsModuleCache: false,
  pool: "forks",
  maxWorkers: availableParallelism(),
  testTimeout: PATIENCE_MILLIS,
  dangerouslyIgnoreUnhandledErrors: true,
  reporters: [{ onTestModuleEnd: () => process.stderr.write(".") }]
}, { plugins: [{ name: "mutants", enforce: "pre", load: (id) => loaded.get(id) }] })

const script = (batch) => `
import { afterEach, beforeEach, describe, it, vi } from ${JSON.stringify(import.meta.resolve("vitest"))}
globalThis.$guard = (collect) => (...context) => {
  try {
    return collect(...context)
  } catch (error) {
    it("is collected", () => { throw error })
  }
}
for (const [n, tests] of ${JSON.stringify(batch)}) {
  describe(String(n), async () => {
    let caught = false
    beforeEach((context) => { if (caught) context.skip() })
    afterEach(({ task }) => { caught ||= task.result?.state === "fail" })
    vi.resetModules()
    globalThis.__mutant = n
    try {
      for (const test of tests) await import(test)
    } catch (error) {
      it("loads", () => { throw error })
    }
  })
}
`
let scripts = 0
/** Runs each mutant's tests; gives what became of them. */
const judge = async (rows) => {
  const size = Math.min(BATCH, Math.ceil(rows.length / availableParallelism()))
  const specifications = []
  for (let i = 0; i < rows.length; i += size) {
    const file = path.join(folder, `${scripts++}.test.ts`)
    await writeFile(file, script(rows.slice(i, i + size)))
    specifications.push(vitest.getRootProject().createSpecification(file))
  }
  const { testModules } = await vitest.runTestSpecifications(specifications)
  const suites = new Map(
    testModules.filter(({ moduleId }) => specifications.some((specification) => specification.moduleId === moduleId))
      .flatMap((module) => [...module.children]).map((suite) => [Number(suite.name), suite])
  )
  for (const error of testModules.flatMap((module) => module.errors())) process.stderr.write(`\n${error.stack}\n`)
  for (const [n] of rows) if (!suites.has(n)) throw new Error(`Mutant ${n} was not judged.`)
  return suites
}
const failed = (suite) => suite.state() === "failed"

const began = performance.now()
try {
  const cost = new Map()
  const needed = [...new Set(mutants.flatMap(({ far, near }) => [...near, ...far]))]
  for (const [n, suite] of await judge(needed.map((test, i) => [-i, [test]]))) {
    if (failed(suite)) {
      const errors = [...suite.children.allTests()].flatMap((test) => test.result().errors ?? [])
      throw new Error(`${needed[-n]} fails without any mutant.\n${errors.map(({ message, stack }) => stack ?? message).join("\n")}`)
    }
    cost.set(needed[-n], [...suite.children.allTests()].reduce((sum, test) => sum + test.diagnostic().duration, 0))
  }
  for (const which of ["near", "far"]) {
    const left = mutants.flatMap((mutant, i) => mutant.state === "survived" && mutant[which].length > 0 ? [[i + 1, mutant[which]]] : [])
    if (left.length === 0) continue
    const seconds = Math.round((performance.now() - began) / 1000)
    const how = which === "near" ? "import" : "reach"
    process.stderr.write(`\n${seconds} s: ${left.length} mutants, tests that ${how} the module `)
    for (const [, tests] of left) tests.sort((a, b) => cost.get(a) - cost.get(b))
    for (const [n, suite] of await judge(left)) if (failed(suite)) mutants[n - 1].state = "caught"
  }
} finally {
  await vitest.close()
  await rm(folder, { recursive: true, force: true })
}

const problems = []
const names = [...new Set(mutants.map(({ name }) => name))]
for (
  const { after, before, file, reason } of JSON.parse(await readFile(path.join(import.meta.dirname, "mutants.equivalent.json"), "utf8"))
) {
  if (!names.includes(file) && values.file) continue
  const same = mutants.filter((mutant) => mutant.name === file && mutant.before === before && mutant.after === after)
  if (same.length === 0 || !reason) problems.push(`${file}: no such mutant, or no reason:\n- ${before}\n+ ${after}`)
  for (const mutant of same) {
    if (mutant.state === "caught") {
      problems.push(
        `${file}:${mutant.line}: listed as equivalent, but a test notices it:\n- ${before}\n+ ${after}`
      )
    } else mutant.state = "equivalent"
  }
}
for (const { after, before, line, name, state } of mutants) {
  if (state === "survived") problems.push(`${name}:${line} survives:\n- ${before}\n+ ${after}`)
}

const rows = [...names, "all"].map((name) => {
  const of = mutants.filter((mutant) => name === "all" || mutant.name === name)
  return [name, of.length, ...["caught", "survived", "equivalent"].map((state) => of.filter((mutant) => mutant.state === state).length)]
})
const table = [["module", "mutants", "caught", "survived", "equivalent"], ...rows]
  .map(([name, ...figures]) => name.padEnd(30) + figures.map((figure) => String(figure).padStart(11)).join("")).join("\n")
process.stdout.write(
  `\n${problems.map((problem) => `\n${problem}\n`).join("")}\n${table}\n\n${Math.round((performance.now() - began) / 1000)} s\n`
)
process.exitCode = problems.length > 0 ? 1 : 0
