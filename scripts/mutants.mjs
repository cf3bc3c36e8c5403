/**
 * Makes small mistakes in the pure rules of `packages/domain` and the deciders of `packages/worker`, one at a time, and looks whether
 * their tests notice: `npm run mutants`. Nothing is written to the sources: each module is loaded with all its mutants in it, and the tests
 * run once per mutant in long-lived workers. The compiler judges the mutants that those tests miss. What `mutants.equivalent.json` lists
 * changes nothing anyone could see.
 */
import { execFile } from "node:child_process"
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
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
const worker = path.join(import.meta.dirname, "../packages/worker")
const BATCH = 24
/** Far more than any test of a rule takes on a busy machine; a mutant that waits for ever counts as noticed. */
const PATIENCE_MILLIS = 60_000
/** The most time of a test file that reaches a module without importing it: it runs once per survivor. A busy machine needs most of it. */
const REACHING_MILLIS = 2_000

/** The modules of the worker that decide without doing anything, and the breaker, which keeps its state as an Effect. */
const DECIDERS = new Set(["BootBreaker", "SavedSession", "SetupMessages", "SetupOutput"])
/**
 * Contract suites judge ports, and the stores of `sandbox/kit`: these are no rules, and their suites take 20 s, so `npm run plants` has
 * their faults. Use cases have their own tests.
 */
const NOT_RULES = /(?:^|\/)(?:kit|ports|usecases|promise|observability)\/|^UseCases\.ts$/u
/** Suites for implementations of ports say nothing of a rule, except the suite of the one implementation that is among the rules. */
const SUITES = /Contract$|Laws$|\.suites$|simulation/u

const filesIn = async (folder) =>
  (await readdir(folder, { recursive: true })).filter((file) => file.endsWith(".ts")).sort().map((file) => path.join(folder, file))
const folders = [
  source,
  ...["memory", "test"].map((folder) => path.join(domain, folder)),
  ...[testing, worker].flatMap((root) => ["src", "test"].map((folder) => path.join(root, folder)))
]

/** The file of a module of these packages by the name that others import it by. */
const exported = (specifier) => {
  const [, owner, name] = /^@slipway\/(domain|testing|worker)\/(.*)$/u.exec(specifier) ?? []
  if (owner === undefined) return specifier
  if (owner !== "domain") return path.join(owner === "testing" ? testing : worker, "src", `${name}.ts`)
  return name.startsWith("memory/") ? path.join(domain, `${name}.ts`) : path.join(source, `${name}.ts`)
}

/** Every module of these packages with what it imports, by path. */
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

const isRule = (name) => name.startsWith("worker/") ? DECIDERS.has(path.basename(name, ".ts")) : !NOT_RULES.test(name)
/** The name of a module in the table, `undefined` if it is no source of rules: `sandbox/rules/Turn.ts`, `worker/boot/BootBreaker.ts`. */
const nameOf = (file) =>
  file.startsWith(`${source}/`)
    ? path.relative(source, file)
    : file.startsWith(`${worker}/src/`)
    ? `worker/${path.relative(path.join(worker, "src"), file)}`
    : undefined
const words = [...modules].flatMap(([file, { program }]) => file.startsWith(source) ? vocabularies(program) : [])

const reaches = (from, to, seen = new Set()) =>
  from === to ||
  modules.has(from) && !seen.has(from) && seen.add(from) && modules.get(from).imports.some((found) => reaches(found.from, to, seen))
/** The first folder of a rule, or of a test: `sandbox`. */
const aggregateOf = (file) =>
  path.relative(
    [source, path.join(worker, "src"), ...[domain, testing, worker].map((root) => path.join(root, "test"))].find((root) =>
      file.startsWith(`${root}/`)
    ),
    file
  ).split("/")[0]
const tests = [...modules.keys()].filter((file) => file.endsWith(".test.ts"))
const judges = tests.filter((file) => !modules.get(file).imports.some(({ from }) => SUITES.test(from.replace(/\.ts$/u, ""))))
/** Tests of use cases say little of a rule that they do not import, and take their time. */
const small = judges.filter((test) => ![...modules.keys()].some((file) => file.includes("/usecases/") && reaches(test, file)))

const lineOf = (text, at) => text.slice(0, at).split("\n").length
/** The text of the module with this one mutant. */
const apply = ({ beginsStatement, end, file, start, to }) => {
  const { text } = modules.get(file)
  // A parenthesis at the beginning of a statement would call the end of the one before.
  return `${text.slice(0, start)}${beginsStatement ? to : `(${to})`}${text.slice(end)}`
}
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
  const name = nameOf(file)
  const found = mutate(module.text, words)
  const chosen = name !== undefined && isRule(name) && values.file?.includes(path.basename(name, ".ts")) !== false
  if (!chosen) found.mutants = []
  const namesake = path.basename(file).replace(/\.ts$/u, ".test.ts")
  const own = tests.filter((test) => test.startsWith(`${worker}/`) === file.startsWith(`${worker}/`))
    .filter((test) => judges.includes(test) || path.basename(test) === namesake)
  // Deciders of the worker that have no test of their own rules are tested through a whole worker, in a file of their name. An import of
  // types loads nothing.
  const near = own.filter((test) =>
    modules.get(test).imports.some(({ from, type }) => from === file && !type) ||
    name?.startsWith("worker/") && path.basename(test) === namesake
  )
  const far = chosen
    ? own.filter((test) => small.includes(test) && !near.includes(test) && aggregateOf(test) === aggregateOf(file) && reaches(test, file))
    : []
  for (const mutant of found.mutants) {
    mutant.n = mutants.length + 1
    mutant.beginsStatement = found.inserts.some(([at, text]) => at === mutant.start && text === "{")
    mutants.push({
      ...mutant,
      ...diff(module.text, mutant),
      file,
      name,
      line: lineOf(module.text, mutant.start),
      near,
      far,
      state: "survived"
    })
  }
  loaded.set(file, tests.includes(file) ? guard(module.text) : combine(module.text, found))
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

/**
 * The numbers of the mutants that do not type check. A copy of a module per mutant, in a folder that the compiler takes for another
 * root of the package's sources, and one without a mutant, which has to type check.
 */
const mistyped = async (some) => {
  const root = path.join(some[0].name.startsWith("worker/") ? worker : domain)
  const copies = path.join(root, "dist", path.basename(folder))
  const copy = async (n, { file }, text) => {
    const to = path.join(copies, String(n), path.relative(path.join(root, "src"), file))
    await mkdir(path.dirname(to), { recursive: true })
    await writeFile(to, text)
    return to
  }
  try {
    const files = []
    for (const mutant of some) files.push(await copy(mutant.n, mutant, apply(mutant)))
    for (const file of new Set(some.map((mutant) => mutant.file))) files.push(await copy(0, { file }, modules.get(file).text))
    const rootDirs = [path.join(root, "src"), ...["0", ...some.map(({ n }) => String(n))].map((n) => path.join(copies, n))]
    const project = path.join(copies, "tsconfig.json")
    await writeFile(
      project,
      JSON.stringify({ extends: path.join(root, "../../tsconfig.json"), compilerOptions: { rootDirs }, include: [], files })
    )
    const output = await new Promise((done) => {
      const tsc = path.join(import.meta.dirname, "../node_modules/typescript/bin/tsc")
      execFile(process.execPath, [tsc, "-p", project, "--pretty", "false"], { cwd: copies, maxBuffer: 2 ** 28 }, (_, out) => done(out))
    })
    const found = new Set([...output.matchAll(/^(\d+)\/\S+\(\d+,\d+\): error /gmu)].map(([, n]) => Number(n)))
    if (found.has(0) || /^error /mu.test(output)) throw new Error(`A module does not type check without any mutant.\n${output}`)
    return found
  } finally {
    await rm(copies, { recursive: true, force: true })
  }
}

const began = performance.now()
try {
  /** The milliseconds that each test file takes without any mutant. */
  const cost = new Map()
  const measure = async (tests, isNeeded) => {
    const left = [...new Set(tests)].filter((test) => !cost.has(test))
    for (const [n, suite] of left.length === 0 ? [] : await judge(left.map((test, i) => [-i, [test]]))) {
      const errors = [...suite.children.allTests()].flatMap((test) => test.result().errors ?? [])
      if (failed(suite) && isNeeded) {
        throw new Error(`${left[-n]} fails without any mutant.\n${errors.map(({ message, stack }) => stack ?? message).join("\n")}`)
      }
      const millis = [...suite.children.allTests()].reduce((sum, test) => sum + test.diagnostic().duration, 0)
      cost.set(left[-n], failed(suite) ? Infinity : millis)
    }
  }
  for (const [which, bound] of [["near", Number.MAX_VALUE], ["far", REACHING_MILLIS]]) {
    const survivors = mutants.filter(({ state }) => state === "survived")
    await measure(survivors.flatMap((mutant) => mutant[which]), which === "near")
    const left = survivors.map((mutant) => [mutant.n, mutant[which].filter((test) => cost.get(test) <= bound)])
      .filter(([, tests]) => tests.length > 0)
    const seconds = Math.round((performance.now() - began) / 1000)
    const how = which === "near" ? "import" : "reach"
    process.stderr.write(`\n${seconds} s: ${left.length} mutants, tests that ${how} the module `)
    for (const [, tests] of left) tests.sort((a, b) => cost.get(a) - cost.get(b))
    // The cheapest tests notice most mutants. For the rest of them the next tests are loaded, twice as many each time.
    for (let from = 0, to = which === "near" ? 2 : Infinity;; [from, to] = [to, 2 * to]) {
      const rows = left.filter(([n]) => mutants[n - 1].state === "survived").map(([n, tests]) => [n, tests.slice(from, to)])
        .filter(([, tests]) => tests.length > 0)
      if (rows.length === 0) break
      for (const [n, suite] of await judge(rows)) if (failed(suite)) mutants[n - 1].state = "caught"
    }
    if (which === "far") continue
    for (const isOfWorker of [false, true]) {
      const some = mutants.filter(({ name, state }) => state === "survived" && name.startsWith("worker/") === isOfWorker)
      for (const n of some.length === 0 ? [] : await mistyped(some)) mutants[n - 1].state = "mistyped"
    }
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
    if (mutant.state === "caught" || mutant.state === "mistyped") {
      problems.push(
        `${file}:${mutant.line}: listed as equivalent, but a test or the compiler notices it:\n- ${before}\n+ ${after}`
      )
    } else mutant.state = "equivalent"
  }
}
for (const { after, before, line, name, state } of mutants) {
  if (state === "survived") problems.push(`${name}:${line} survives:\n- ${before}\n+ ${after}`)
}

const rows = [...names, "all"].map((name) => {
  const of = mutants.filter((mutant) => name === "all" || mutant.name === name)
  return [name, of.length, ...["caught", "mistyped", "survived", "equivalent"].map((state) =>
    of.filter((mutant) => mutant.state === state).length
  )]
})
const table = [["module", "mutants", "caught", "mistyped", "survived", "equivalent"], ...rows]
  .map(([name, ...figures]) => name.padEnd(30) + figures.map((figure) => String(figure).padStart(11)).join("")).join("\n")
process.stdout.write(
  `\n${problems.map((problem) => `\n${problem}\n`).join("")}\n${table}\n\n${Math.round((performance.now() - began) / 1000)} s\n`
)
process.exitCode = problems.length > 0 ? 1 : 0
