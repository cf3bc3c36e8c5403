/** Reads the API's description for the scripts that write clients in other languages, and writes or checks their files. */
import { readFileSync, writeFileSync } from "node:fs"
import path from "node:path"

const root = path.resolve(import.meta.dirname, "..")
const read = (file) => readFileSync(path.join(root, file), "utf8")
const API = "/api/public/v1"
const JSON_TYPE = "application/json"

const { components, paths } = JSON.parse(read("packages/api/openapi.json"))

/** Every schema by its name. */
export const schemas = components.schemas
/** The version of all clients. */
export const { version } = JSON.parse(read("packages/client/package.json"))

export const pascal = (name) => name.replaceAll(/(?:^|[^A-Za-z0-9]+)([A-Za-z0-9])/gu, (_, letter) => letter.toUpperCase())
export const nameOf = (reference) => reference.split("/").at(-1)
export const isNothing = ({ type }) => type === "null"

/** The lines of a text, none longer than `width` unless a word is. */
export const wrapped = (text, width) =>
  text.split("\n").flatMap((paragraph) => {
    const lines = [""]
    for (const word of paragraph.split(" ")) {
      const last = lines.at(-1)
      if (last !== "" && last.length + 1 + word.length > width) lines.push(word)
      else lines[lines.length - 1] = last === "" ? word : `${last} ${word}`
    }
    return lines
  })

const contentOf = ({ content = {} }) => Object.entries(content)[0]
const successOf = ({ responses }) => responses["200"] ?? responses["201"]

const bodyOf = ({ requestBody }) => {
  if (requestBody === undefined) return undefined
  const [, { schema }] = contentOf(requestBody)
  return schema.format === "binary" ? { kind: "file", isRequired: true } : {
    kind: "json",
    isRequired: requestBody.required === true,
    type: nameOf(schema.$ref)
  }
}

const replyOf = (operation) => {
  const [type, { schema }] = contentOf(successOf(operation))
  if (type === JSON_TYPE) return { kind: "json", type: nameOf(schema.$ref) }
  return { kind: schema.format === "binary" ? "download" : "text" }
}

const operationOf = (address, verb, operation) => {
  const { description, operationId, parameters = [], summary } = operation
  return {
    id: operationId,
    method: verb.toUpperCase(),
    /** Below the API's root, with parameters in braces. */
    place: address.slice(API.length),
    about: [summary, description].filter((text) => text !== undefined && text !== "").join("\n\n"),
    inPath: parameters.filter((one) => one.in === "path"),
    inQuery: parameters.filter((one) => one.in === "query"),
    isKeyed: parameters.some(({ name }) => name === "Idempotency-Key"),
    /** `undefined`: no body. A `file` is bytes with a name and a media type. */
    body: bodyOf(operation),
    reply: replyOf(operation)
  }
}

/** The operations of the API in order, without the stream, which every client reads by its own code. */
export const operations = Object.entries(paths).flatMap(([address, verbs]) =>
  Object.entries(verbs)
    .filter(([, operation]) => address.startsWith(`${API}/`) && contentOf(successOf(operation))[0] !== "text/event-stream")
    .map(([verb, operation]) => operationOf(address, verb, operation))
)

/** With `--write`: writes the files, texts by name. Without: the process fails if one of them has another text; `command` writes it. */
export const writeOrCheck = (folder, files, command) => {
  for (const [name, text] of Object.entries(files)) {
    const file = `${folder}/${name}`
    if (process.argv.includes("--write")) writeFileSync(path.join(root, file), text)
    else if (read(file) !== text) {
      process.stderr.write(`${file} does not say what the API's description does. ${command} writes it.\n`)
      process.exitCode = 1
    }
  }
}
