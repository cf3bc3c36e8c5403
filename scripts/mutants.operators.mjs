/** The changes that `mutants.mjs` makes in a module: one small mistake per mutant, found in its syntax tree. Expressions only. */
import { parseAst } from "vitest/node"

const swapped = new Map(Object.entries({
  "===": ["!=="],
  "!==": ["==="],
  "<": ["<=", ">"],
  "<=": ["<", ">"],
  ">": [">=", "<"],
  ">=": [">", "<"],
  "+": ["-"],
  "-": ["+"],
  "*": ["/"],
  "/": ["*"],
  "%": ["*"],
  "&": ["|"],
  "|": ["&"],
  "^": ["|"],
  "<<": [">>>"],
  ">>": ["<<"],
  ">>>": ["<<"],
  "+=": ["-="],
  "-=": ["+="],
  "^=": ["|="]
}))
const renamed = new Map(Object.entries({
  some: "every",
  every: "some",
  startsWith: "endsWith",
  endsWith: "startsWith",
  push: "unshift",
  pop: "shift",
  min: "max",
  max: "min",
  floor: "ceil",
  ceil: "floor",
  addDuration: "subtractDuration",
  isLessThan: "isLessThanOrEqualTo",
  isLessThanOrEqualTo: "isLessThan",
  isGreaterThan: "isGreaterThanOrEqualTo",
  isGreaterThanOrEqualTo: "isGreaterThan",
  isMaxProperties: "isMinProperties"
}))
/** Calls whose receiver could stand alone. */
const dropped = new Set([
  "check",
  "filter",
  "map",
  "normalize",
  "padStart",
  "replace",
  "replaceAll",
  "reverse",
  "slice",
  "sort",
  "toLowerCase",
  "toUpperCase",
  "trim"
])
/** Documentation and names of types: no rule. */
const silent = new Set(["annotate", "annotateKey", "brand"])
const described = new Set(["expected", "toJsonSchema", "arbitraryConstraint", "identifier"])
const typed = new Set(["typeAnnotation", "returnType", "typeParameters", "typeArguments", "superTypeArguments", "implements", "id"])
const loops = new Set(["ForStatement", "ForOfStatement", "ForInStatement", "WhileStatement", "DoWhileStatement"])

const children = (node) =>
  Object.entries(node).flatMap(([key, value]) =>
    typed.has(key) || key === "key" && !node.computed ? [] : Array.isArray(value) ? value : [value]
  ).filter((value) => typeof value?.type === "string")
const isExpression = (node) => !node.type.startsWith("TS") || /^TS(?:As|Satisfies|NonNull)Expression$/u.test(node.type)
const bare = (node) => {
  let inner = node
  while (inner && (inner.type === "ParenthesizedExpression" || inner.type.startsWith("TS"))) inner = inner.expression
  return inner
}
const name = (node) => node?.type === "Identifier" ? node.name : node?.type === "MemberExpression" ? node.property.name : undefined
/** The tag of an error is part of its type, which other modules use. Descriptions of fields are documentation. */
const named = new Set(["TaggedError", "timestamp", "About"])
const isName = (node, parent) =>
  parent?.type === "CallExpression" && parent.arguments[0] === node &&
  [parent.callee, parent.callee.callee].some((callee) => named.has(name(callee)))
const string = (node) => node?.type === "Literal" && typeof node.value === "string" ? node.value : undefined

export const parse = (source) => parseAst(source, { lang: "ts" })

/** The closed lists of words of a module: `Schema.Literals([...])`. */
export const vocabularies = (program) => {
  const found = []
  const visit = (node) => {
    if (node.type === "CallExpression" && name(node.callee) === "Literals" && node.arguments[0]?.type === "ArrayExpression") {
      found.push(node.arguments[0].elements.map(string))
    }
    children(node).forEach(visit)
  }
  visit(program)
  return found
}

const regexes = ({ flags, pattern }) => {
  const found = []
  if (pattern.startsWith("^")) found.push([pattern.slice(1), flags])
  if (/[^\\]\$$/u.test(pattern)) found.push([pattern.slice(0, -1), flags])
  if (flags.includes("i")) found.push([pattern, flags.replace("i", "")])
  for (const at of pattern.matchAll(/\{(\d+)(?:,(\d+))?\}/gu)) {
    const put = (text) => found.push([pattern.slice(0, at.index) + text + pattern.slice(at.index + at[0].length), flags])
    const [low, high] = [Number(at[1]), at[2] && Number(at[2])]
    if (high === undefined) [low - 1, low + 1].forEach((n) => put(`{${n}}`))
    else [[low - 1, high], [low + 1, high], [low, high - 1], [low, high + 1]].forEach(([a, b]) => a >= 0 && put(`{${a},${b}}`))
  }
  for (const at of pattern.matchAll(/(?<=[^\\][)\].])[*+]/gu)) {
    found.push([pattern.slice(0, at.index) + (at[0] === "*" ? "+" : "*") + pattern.slice(at.index + 1), flags])
  }
  return found.map(([text, flag]) => `/${text}/${flag}`)
}

/**
 * The mutants of a module, as replacements of `start` to `end`, and the `inserts` that keep every loop finite and
 * every statement a statement. `words` are the vocabularies of the whole package.
 */
export const mutate = (source, words) => {
  const program = parse(source)
  const text = (node) => source.slice(node.start, node.end)
  const mutants = []
  const inserts = []
  const constants = new Map(
    program.body.map((node) => node.declaration ?? node).filter(({ type }) => type === "VariableDeclaration")
      .flatMap(({ declarations }) => declarations).map(({ id, init }) => [id.name, bare(init)])
  )
  const add = (node, to) => {
    if (text(node) !== to) mutants.push({ start: node.start, end: node.end, to })
  }
  /** The words an array is made of, or `undefined`. */
  const listed = (node) => {
    const array = node?.type === "Identifier" ? constants.get(node.name) : node
    if (array?.type !== "ArrayExpression") return
    const found = array.elements.flatMap((element) =>
      element?.type === "SpreadElement" ? listed(element.argument) ?? [undefined] : [string(element)]
    )
    return found.includes(undefined) ? undefined : found
  }
  const literals = (list) => `[${list.map((word) => JSON.stringify(word)).join(", ")}]`

  /** The choices of the lists in the current statement. */
  let choices
  const ofList = (node, list) => {
    list.forEach((_, i) => add(node, literals(list.toSpliced(i, 1))))
    for (const word of choices) if (!list.includes(word)) add(node, literals([...list, word]))
  }
  const ofArray = (node, parent) => {
    const list = listed(node)
    const closed = parent?.type === "CallExpression" && name(parent.callee) === "Literals"
    if (!closed && choices && list?.length > 0 && list.every((word) => choices.includes(word))) return ofList(node, list)
    if (node.elements.length === 0) return add(node, "[undefined]")
    for (const i of node.elements.keys()) {
      add(
        node,
        `[${node.elements.toSpliced(i, 1).map((element) => element ? text(element) : "").join(", ")}]`
      )
    }
  }

  const isTable = ({ properties, type }) =>
    type === "ObjectExpression" && properties.length > 1 && properties.every(({ value }) => listed(bare(value)))
  const ofObject = (node) => {
    const { properties } = node
    for (const [i, property] of properties.entries()) {
      if (!described.has(name(property.key))) add(node, `{ ${properties.toSpliced(i, 1).map(text).join(", ")} }`)
    }
    for (const { shorthand, value } of properties) {
      const list = shorthand ? undefined : listed(bare(value))
      // A list by its name, and an empty one among others, are lists of the table too.
      if (choices && list && (isTable(node) || bare(value).type === "Identifier")) ofList(bare(value), list)
    }
  }

  const ofNode = (node, parent) => {
    switch (node.type) {
      case "BinaryExpression":
      case "AssignmentExpression":
        for (const operator of swapped.get(node.operator) ?? []) add(node, `${text(node.left)} ${operator} ${text(node.right)}`)
        return
      case "LogicalExpression":
        add(node, text(node.left))
        add(node, text(node.right))
        if (node.operator !== "??") add(node, `(${text(node.left)}) ${node.operator === "&&" ? "||" : "&&"} (${text(node.right)})`)
        return
      case "UnaryExpression":
        return add(node, text(node.argument))
      case "ConditionalExpression":
      case "IfStatement":
        add(node.test, "true")
        return add(node.test, "false")
      case "TemplateLiteral":
        return add(node, "\"\"")
      case "ExpressionStatement":
        return add(node.expression, "undefined")
      case "ObjectExpression":
        return ofObject(node)
      case "ArrayExpression":
        return ofArray(node, parent)
      case "CallExpression": {
        if (node.callee.type !== "MemberExpression") return
        const called = node.callee.property.name
        if (dropped.has(called)) add(node, text(node.callee.object))
        if (renamed.has(called)) {
          const { end, start } = node.callee.property
          add(node, `${source.slice(node.start, start)}${renamed.get(called)}${source.slice(end, node.end)}`)
        }
        return
      }
      case "Literal":
        if (isName(node, parent)) return
        if (node.regex) return regexes(node.regex).forEach((to) => add(node, to))
        if (typeof node.value === "boolean") return add(node, String(!node.value))
        if (typeof node.value === "number") {
          // No text is shorter than empty.
          const isEmpty = node.value === 0 && name(parent?.callee) === "text" && parent.arguments[0] === node
          return (isEmpty ? [1] : [node.value + 1, node.value - 1]).forEach((to) => add(node, String(to)))
        }
        if (typeof node.value === "string" && !node.value.startsWith("@slipway/")) {
          const among = words.filter((all) => all.includes(node.value))
          const next = among.map((all) => all[(all.indexOf(node.value) + 1) % all.length])
          for (const to of new Set(among.length > 0 ? next : [node.value === "" ? "mutant" : ""])) add(node, JSON.stringify(to))
        }
    }
  }

  const visit = (node, parent, chained = false) => {
    if (!isExpression(node) || node.type === "ImportDeclaration") return
    if (node.type === "ClassDeclaration" && node.superClass && /Context\.Service/u.test(text(node.superClass))) return
    if (node.type === "CallExpression" && silent.has(name(node.callee))) return visit(node.callee.object, node, chained)
    if (node.type === "Property" && described.has(name(node.key))) return
    // A default of a list's element is there for the compiler.
    if (node.type === "ArrayPattern") return
    if (!chained) ofNode(node, parent)
    const inTable = choices !== undefined && isTable(node)
    if (node.type === "ExpressionStatement") inserts.push([node.start, "{"])
    if (loops.has(node.type)) inserts.push([node.start, "{let $n=0;"])
    for (const child of children(node)) {
      const body = loops.has(node.type) && child === node.body
      if (body) inserts.push([child.start, "{if(++$n>2_000_000)throw new Error('endless');"])
      // The links of an optional chain cannot stand in parentheses.
      const link = (node.type === "ChainExpression" || chained) &&
          (child === node.expression || child === node.callee || child === node.object) ||
        // Nor can the template of a tag.
        node.type === "TaggedTemplateExpression" && child === node.quasi
      const pattern = child === node.left && node.type === "AssignmentExpression"
      const types = child.type === "Literal" && (node.type === "Property" && child !== node.value || node.type.startsWith("Export"))
      // A closed list that lacks a word is mistake enough.
      const words = node.type === "ArrayExpression" && name(parent?.callee) === "Literals"
      if (!pattern && !inTable && !types && !words) visit(child, node, link)
      if (body) inserts.push([child.end, "}"])
    }
    if (node.type === "ExpressionStatement" || loops.has(node.type)) inserts.push([node.end, "}"])
  }
  for (const statement of program.body) {
    const lists = []
    const collect = (node) => {
      if (node.type === "ArrayExpression") lists.push(...listed(node) ?? [])
      children(node).forEach(collect)
    }
    collect(statement)
    choices = lists.length > 0
      ? words.filter((all) => lists.every((word) => all.includes(word))).sort((a, b) => a.length - b.length)[0]
      : undefined
    visit(statement)
  }
  const seen = new Set()
  return {
    inserts,
    mutants: mutants.filter(({ end, start, to }) => {
      const key = `${start}-${end}:${to}`
      return !seen.has(key) && seen.add(key)
    })
  }
}

/** A test whose groups are made by `$guard`: a group that cannot be collected must not stop the tests of other mutants. */
export const guard = (source) => {
  const inserts = []
  const visit = (node) => {
    const group = node.type === "CallExpression" && node.callee.name === "describe" ? node.arguments.at(-1) : undefined
    if (group) inserts.push([group.start, "$guard("])
    children(node).forEach(visit)
    if (group) inserts.push([group.end, ")"])
  }
  visit(parse(source))
  return combine(source, { inserts, mutants: [] })
}

/** The module with all its mutants: the one whose `n` is `globalThis.__mutant` when it is loaded is active. */
export const combine = (source, { inserts, mutants }) => {
  const sites = new Map()
  for (const mutant of mutants) {
    const key = `${mutant.start}-${mutant.end}`
    sites.set(key, [...sites.get(key) ?? [], mutant])
  }
  const ordered = [...sites.values()].sort(([a], [b]) => a.start - b.start || b.end - a.end)
  const pending = inserts.map(([at, text], i) => ({ at, text, i })).sort((a, b) => a.at - b.at || a.i - b.i)
  let nextSite = 0
  let nextInsert = 0
  const plain = (from, to, last) => {
    let out = ""
    let at = from
    while (nextInsert < pending.length && (pending[nextInsert].at < to || last && pending[nextInsert].at === to)) {
      out += source.slice(at, pending[nextInsert].at) + pending[nextInsert].text
      at = pending[nextInsert++].at
    }
    return out + source.slice(at, to)
  }
  const render = (from, to) => {
    let out = ""
    let at = from
    while (nextSite < ordered.length && ordered[nextSite][0].start < to) {
      const [site] = [ordered[nextSite++]]
      const [{ end, start }] = site
      out += plain(at, start, false)
      // An insertion before a statement goes before the parenthesis around its expression.
      while (nextInsert < pending.length && pending[nextInsert].at === start && pending[nextInsert].text.startsWith("{")) {
        out += pending[nextInsert++].text
      }
      out += `(${site.map(({ n, to: text }) => `$mutant===${n}?(${text}):`).join("")}(${render(start, end)}))`
      at = end
    }
    return out + plain(at, to, to === source.length)
  }
  return `const $mutant = globalThis.__mutant\n${render(0, source.length)}`
}
