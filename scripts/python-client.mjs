/**
 * Looks whether the Python client says what the API's description does (`npm run check` does); `npm run client:python` writes it so:
 * `types.py` from the schemas, `_operations.py` from the paths. The rest of `clients/python` is written by people.
 */
import { isNothing, nameOf, operations as described, pascal, schemas, version, wrapped, writeOrCheck } from "./client-description.mjs"

const NOTE = "# Written by scripts/python-client.mjs from the API's description: do not edit."

const snake = (name) => name.replaceAll("-", "_").replaceAll(/(?<=[a-z0-9])[A-Z]/gu, "_$&").toLowerCase()
/** Names that Python keeps for itself get an underscore behind them, as its own library does. */
/** Keywords of Python, `keyword.kwlist`. */
const KEPT = new Set(
  ("False None True and as assert async await break class continue def del elif else except finally for from global if import in is " +
    "lambda nonlocal not or pass raise return try while with yield").split(" ")
)
const argument = (name) => KEPT.has(snake(name)) ? `${snake(name)}_` : snake(name)

const docstring = (text, indent) => {
  const said = text.replaceAll("\\", "\\\\").replaceAll("\"\"\"", "'''").trim()
  const lines = wrapped(said, 100 - indent.length)
  return lines.length === 1 && lines[0].length + indent.length <= 94
    ? [`${indent}"""${lines[0]}"""`]
    : [`${indent}"""`, ...lines.map((line) => line === "" ? "" : indent + line), `${indent}"""`]
}

/** Long lists of values have one on a line. */
const folded = (text) =>
  text.replaceAll(
    /^( *)(.{100,})$/gmu,
    (line, indent) =>
      line.replace(/Literal\[([^\]]+)\]/u, (_, values) =>
        ["Literal[", ...values.split(", ").map((value) => `${indent}    ${value},`), `${indent}]`].join("\n"))
  )

/** The definitions so far, in order: text by name. */
const definitions = new Map()

const either = (options) => [...new Set(options)].join(" | ")

/** The type of a value; an object gets a class of its own, `name`. */
const typeOf = (schema, name) => {
  if (schema.$ref !== undefined) return nameOf(schema.$ref)
  const options = schema.anyOf ?? schema.oneOf
  if (options !== undefined) {
    const types = options.filter((option) => !isNothing(option)).map((option) => typeOf(option, name))
    return either([...types, ...(options.some(isNothing) ? ["None"] : [])])
  }
  if (schema.enum !== undefined) {
    const literal = (value) => typeof value === "boolean" ? (value ? "True" : "False") : JSON.stringify(value)
    return `Literal[${schema.enum.map(literal).join(", ")}]`
  }
  switch (schema.type) {
    case "string":
      return "str"
    case "integer":
      return "int"
    case "number":
      return "float"
    case "boolean":
      return "bool"
    case "null":
      return "None"
    case "array":
      return `list[${schema.items.not === undefined ? typeOf(schema.items, name) : "Any"}]`
    case "object":
      if (schema.properties !== undefined) {
        define(name, schema)
        return name
      }
      return `dict[str, ${typeof schema.additionalProperties === "object" ? typeOf(schema.additionalProperties, name) : "Any"}]`
    default:
      throw new Error(`${name} is of a type that this script does not know: ${JSON.stringify(schema)}`)
  }
}

/** Keys that are keywords of Python, all of which may be missing: no statement of a class can name them. */
const keywordsOf = (name, fields) =>
  fields.length === 0 ? [] : [
    `${name} = TypedDict(`,
    `    "${name}",`,
    "    {",
    ...fields.flatMap(({ about, key, type }) => [...wrapped(about, 90).map((line) => `        # ${line}`), `        "${key}": "${type}",`]),
    "    },",
    "    total=False,",
    ")",
    "",
    ""
  ]

/** Two classes, where some keys may be missing: `NotRequired` is of Python 3.11. */
const define = (name, schema) => {
  if (definitions.has(name)) throw new Error(`${name} is defined twice`)
  definitions.set(name, "")
  const required = new Set(schema.required)
  const all = Object.entries(schema.properties).map(([key, value]) => {
    if (!/^[A-Za-z_]\w*$/u.test(key) || KEPT.has(key) && required.has(key)) throw new Error(`${name}.${key} is no name of Python`)
    const type = typeOf(value, name + pascal(key))
    const lines = [`    ${key}: ${type}`, ...(value.description === undefined ? [] : docstring(value.description, "    "))]
    return { key, type, about: value.description ?? "", lines }
  })
  const named = all.filter(({ key }) => !KEPT.has(key))
  const members = (wanted) => named.filter(({ key }) => required.has(key) === wanted).flatMap(({ lines }) => lines)
  const about = schema.description === undefined ? [] : [...docstring(schema.description, "    "), ""]
  const [always, sometimes] = [members(true), members(false)]
  const keywords = keywordsOf(`_${name}Keywords`, all.filter(({ key }) => KEPT.has(key)))
  const inTwo = sometimes.length > 0 && always.length > 0
  const bases = [...(inTwo ? [`_${name}`] : []), ...(keywords.length === 0 ? [] : [`_${name}Keywords`])]
  const total = always.length === 0 || inTwo ? ", total=False" : ""
  definitions.set(
    name,
    [
      ...keywords,
      ...(inTwo ? [`class _${name}(TypedDict):`, ...always, "", ""] : []),
      `class ${name}(${bases.length === 0 ? "TypedDict" : bases.join(", ")}${total}):`,
      ...about,
      ...(inTwo ? [] : always),
      ...sometimes
    ].join("\n")
  )
}

for (const [name, schema] of Object.entries(schemas)) {
  if (schema.type === "object") define(name, schema)
  else {
    const options = schema.oneOf
    const about = schema.description === undefined ? [] : docstring(schema.description, "")
    const type = options === undefined
      ? typeOf(schema, name)
      : `Union[\n${options.map((one) => `    "${typeOf(one, name)}",`).join("\n")}\n]`
    definitions.set(name, [`${name} = ${type}`, ...about].join("\n"))
  }
}

const types = `${NOTE}
"""What goes over the wire. Values may be added over time, such as types of events: ignore what you do not know."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Union


${folded([...definitions.values()].join("\n\n\n"))}
`

/** The type of a method's answer, and how the request asks for it. */
const REPLIES = {
  json: ({ type }) => ({ result: `types.${type}`, ask: "_json" }),
  download: () => ({ result: "Download", ask: "_download" }),
  text: () => ({ result: "str", ask: "_text" })
}

const methodOf = ({ about, body, id, inPath, inQuery, isKeyed, method, place, reply }) => {
  const isFile = body?.kind === "file"
  const optional = (type) => `${type} | None = None`
  const content = isFile ? "bytes" : `types.${body?.type}`
  const must = ({ required }) => required === true
  /** A word or any text is any text. */
  const plain = (schema) => typeOf(schema, "").replace(/^Literal\[.*\] \| str$/u, "str")
  const named = [
    ...inQuery.filter((one) => !must(one)).map(({ name, schema }) => `${argument(name)}: ${optional(plain(schema))}`),
    ...(isFile ? ["name", "media_type"].map((name) => `${name}: ${optional("str")}`) : []),
    ...(isKeyed ? [`idempotency_key: ${optional("str")}`] : [])
  ]
  const list = [
    "self",
    ...inPath.map(({ name }) => `${argument(name)}: str`),
    ...(body === undefined ? [] : [`${isFile ? "content" : "body"}: ${body.isRequired ? content : optional(content)}`]),
    ...inQuery.filter(must).map(({ name, schema }) => `${argument(name)}: ${plain(schema)}`),
    ...(named.length === 0 ? [] : ["*", ...named])
  ]
  const { ask, result } = REPLIES[reply.kind](reply)
  const filled = place.replaceAll(/\{(\w+)\}/gu, (_, name) => `{segment(${argument(name)})}`)
  const passed = [
    `"${method}"`,
    `${filled.includes("{") ? "f" : ""}"${filled}"`,
    ...(inQuery.length === 0 ? [] : [`query={${inQuery.map(({ name }) => `"${name}": ${argument(name)}`).join(", ")}}`]),
    ...(body === undefined ? [] : isFile ? ["content", "name", "media_type"].map((name) => `${name}=${name}`) : ["body=body"]),
    ...(isKeyed ? ["idempotency_key=idempotency_key or new_key()"] : [])
  ]
  return [
    `    def ${snake(id)}(`,
    ...list.map((one) => `        ${one},`),
    `    ) -> ${result}:`,
    ...docstring(about, "        "),
    `        return self.${ask}(`,
    ...passed.map((one) => `            ${one},`),
    "        )"
  ].join("\n")
}

const operations = `${NOTE}
from __future__ import annotations

from typing import Literal

from . import types
from ._transport import Download, Transport, new_key, segment

VERSION = "${version}"


class Operations(Transport):
    """Every operation of the API, as the service describes it at \`/docs\`."""

${folded(described.map(methodOf).join("\n\n"))}
`

writeOrCheck("clients/python/src/slipway_client", { "types.py": types, "_operations.py": operations }, "npm run client:python")
