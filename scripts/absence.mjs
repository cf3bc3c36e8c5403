/**
 * Finds code that takes "could not be read" for "is not there": `npm run check` fails on each that `absence.allowed.json` does not
 * name with a reason. Of a path, only ENOENT and ENOTDIR mean absence: `packages/domain/src/files/rules/SystemError.ts` has what says so.
 *
 * In files that import `node:fs`: a `catch` clause and a handler of a rejection that do not look at the error, and do not throw.
 * In all files: `existsSync`, `Effect.option`, `Effect.orElseSucceed`. An allowed place is its file and the text of its line or clause.
 */
import { readFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { parseAst } from "rolldown/parseAst"
import { sourcesOf } from "./sources.mjs"

const EFFECTS = new Set(["option", "orElseSucceed"])

/** Nodes below `node`, itself first. */
function* nodesIn(node) {
  if (Array.isArray(node)) { for (const one of node) yield* nodesIn(one) }
  else if (typeof node === "object" && node !== null) {
    if (typeof node.type === "string") yield node
    for (const [key, value] of Object.entries(node)) if (key !== "loc" && typeof value === "object") yield* nodesIn(value)
  }
}

const uses = (node, name) => Array.from(nodesIn(node)).some((one) => one.type === "Identifier" && one.name === name)
const throws = (node) => Array.from(nodesIn(node)).some(({ type }) => type === "ThrowStatement")

/** Whether it runs without a look at its first parameter, and ends well. */
const isBlind = ({ body, params, type }) =>
  type === "ArrowFunctionExpression" && !throws(body) &&
  !params.slice(0, 1).some((error) => error.type !== "Identifier" || uses(body, error.name))

/** Positions in a file of what takes any failure for an answer. */
export const found = (source, file = "file.ts") => {
  const program = parseAst(source, { lang: "ts" }, file)
  const readsFiles = program.body.some(({ source, type }) => type === "ImportDeclaration" && /^node:fs(?:\/promises)?$/u.test(source.value))
  const at = []
  for (const node of nodesIn(program)) {
    if (node.type === "CallExpression" && node.callee.type === "Identifier" && node.callee.name === "existsSync") at.push(node.start)
    const isMember = node.type === "MemberExpression" && node.property.type === "Identifier"
    if (isMember && node.object.name === "Effect" && EFFECTS.has(node.property.name)) at.push(node.property.start)
    if (!readsFiles) continue
    if (node.type === "CatchClause" && !throws(node.body) && (node.param === null || !uses(node.body, node.param.name))) at.push(node.start)
    if (node.type !== "CallExpression" || node.callee.type !== "MemberExpression") continue
    const handler = { catch: node.arguments[0], then: node.arguments[1] }[node.callee.property.name]
    // `Effect.catch` has the failure first.
    if (handler !== undefined && isBlind(handler)) at.push(handler.start)
  }
  return Array.from(new Set(at))
}

/** Its number, and its text: of a `catch` clause up to its end. */
const lineOf = (source, position) => {
  const number = source.slice(0, position).split("\n").length
  const rest = source.slice(position)
  const text = rest.startsWith("catch")
    ? rest.slice(0, rest.indexOf("}") + 1).replaceAll(/\s+/gu, " ")
    : source.split("\n")[number - 1].trim()
  return { number, text }
}

/** Problems of the checkout at `root`, as lines. `allowed`: by file and line of code, why. */
export const check = (root, allowed) => {
  const problems = []
  const used = new Set()
  for (const place of sourcesOf(root).filter((file) => /^packages\/(?:adapters\/)?[^/]+\/src\//u.test(file))) {
    const source = readFileSync(path.join(root, place), "utf8")
    for (const position of found(source, place)) {
      const { number, text } = lineOf(source, position)
      if (allowed[place]?.[text] === undefined) problems.push(`${place}:${number}: any failure is taken for an answer here: ${text}`)
      else used.add(`${place} ${text}`)
    }
  }
  for (const [place, lines] of Object.entries(allowed)) {
    for (const text of Object.keys(lines)) {
      if (!used.has(`${place} ${text}`)) problems.push(`scripts/absence.allowed.json: no such place is left in ${place}: ${text}`)
    }
  }
  return problems
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const allowed = JSON.parse(readFileSync(new URL("absence.allowed.json", import.meta.url), "utf8"))
  const problems = check(fileURLToPath(new URL("..", import.meta.url)), allowed)
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  if (problems.length > 0) {
    process.stderr.write(
      "Of a path, only ENOENT and ENOTDIR mean absence: see packages/domain/src/files/rules/SystemError.ts. " +
        "What is right otherwise is listed with its reason.\n"
    )
    process.exit(1)
  }
}
