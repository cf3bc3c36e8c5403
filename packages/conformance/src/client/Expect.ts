/** Reports expected and actual values. Independent of the service. */

/** The server breaks a rule. */
export class Miss extends Error {
  /** `gotShown`: the text for `got`, if JSON does not suit it. */
  constructor(expected: string, got: unknown, gotShown = shown(got)) {
    super(`expected ${expected}, got ${gotShown}`)
  }
}

/** The rule cannot be checked on this server or with these options. */
export class Skip extends Error {}

const MAX_SHOWN = 160

/** A value on one line, cut if it is long. */
export const shown = (value: unknown): string => {
  const text = typeof value === "string"
    ? JSON.stringify(value)
    : value === undefined
    ? "nothing"
    : JSON.stringify(value) ?? String(value)
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text
}

const equal = (a: unknown, b: unknown): boolean => {
  if (Object.is(a, b)) return true
  if (
    typeof a !== "object" || typeof b !== "object" || a === null || b === null || Array.isArray(a) !== Array.isArray(b)
  ) return false
  const [left, right] = [Object.entries(a), new Map(Object.entries(b))]
  return left.length === right.size && left.every(([key, value]) => right.has(key) && equal(value, right.get(key)))
}

/** The first difference of two values: path, actual, expected. */
const differenceAt = (path: string, got: unknown, wanted: unknown): readonly [string, unknown, unknown] => {
  if (typeof got === "object" && typeof wanted === "object" && got !== null && wanted !== null) {
    const [a, b] = [new Map(Object.entries(got)), new Map(Object.entries(wanted))]
    for (const key of new Set([...b.keys(), ...a.keys()])) {
      if (equal(a.get(key), b.get(key)) && a.has(key) === b.has(key)) continue
      return differenceAt(
        Array.isArray(wanted) ? `${path}[${key}]` : path === "" ? key : `${path}.${key}`,
        a.get(key),
        b.get(key)
      )
    }
  }
  return [path, got, wanted]
}

/** Misses the rule unless both are deeply equal. */
export const same = (got: unknown, wanted: unknown, what = ""): void => {
  if (equal(got, wanted)) return
  const [path, g, w] = differenceAt("", got, wanted)
  const where = path.startsWith("[") ? `${what}${path}` : [what, path].filter((part) => part !== "").join(" ")
  throw new Miss(`${where === "" ? "" : `${where} to be `}${shown(w)}`, g)
}

/** Misses the rule unless the condition holds. */
export const holds = (condition: boolean, expected: string, got: unknown): void => {
  if (!condition) throw new Miss(expected, got)
}

// ---------------------------------------------------------------------------------------------------------------
// JSON that is looked into without trusting it

/** Access to a JSON body whose errors name the path. */
export class Json {
  readonly value: unknown
  readonly path: string
  constructor(value: unknown, path = "") {
    this.value = value
    this.path = path
  }
  /** A member; a missing one is `undefined`. */
  at(key: string | number): Json {
    const path = typeof key === "number" ? `${this.path}[${key}]` : this.path === "" ? key : `${this.path}.${key}`
    const object: object = typeof this.value === "object" && this.value !== null ? this.value : {}
    return new Json(Object.hasOwn(object, key) ? Reflect.get(object, key) : undefined, path)
  }
  get string(): string {
    if (typeof this.value !== "string") throw new Miss(`${this.path} to be a string`, this.value)
    return this.value
  }
  get number(): number {
    if (typeof this.value !== "number") throw new Miss(`${this.path} to be a number`, this.value)
    return this.value
  }
  get items(): ReadonlyArray<Json> {
    if (!Array.isArray(this.value)) {
      throw new Miss(`${this.path === "" ? "the body" : this.path} to be an array`, this.value)
    }
    return this.value.map((_, i) => this.at(i))
  }
  get keys(): ReadonlyArray<string> {
    return typeof this.value === "object" && this.value !== null ? Object.keys(this.value) : []
  }
}

// ---------------------------------------------------------------------------------------------------------------
// Shapes

/** The fault of a value; `null`: it is valid. */
export type Shape = (value: unknown, path: string) => Miss | null

const simple = (expected: string, test: (value: unknown) => boolean): Shape => (value, path) =>
  test(value) ? null : new Miss(`${path} to be ${expected}`, value)

/** A string. */
export const text = simple("a string", (value) => typeof value === "string")
/** A string that is not empty. */
export const filled = simple("a string that is not empty", (value) => typeof value === "string" && value !== "")
/** A boolean. */
export const flag = simple("true or false", (value) => typeof value === "boolean")
/** A safe integer from 0. */
export const count = simple(
  "an integer from 0 to 2^53-1",
  (value) => typeof value === "number" && Number.isSafeInteger(value) && value >= 0
)
/** A safe integer from 1. */
export const positive = simple(
  "an integer from 1 to 2^53-1",
  (value) => typeof value === "number" && Number.isSafeInteger(value) && value >= 1
)
/** A finite number. */
export const finite = simple("a number", (value) => typeof value === "number" && Number.isFinite(value))
/** One of these values. */
export const is = (...values: ReadonlyArray<unknown>): Shape =>
  simple(values.map(shown).join(" or "), (value) => values.some((wanted) => equal(value, wanted)))
/** A string that matches. `name` is used in messages. */
export const matching = (pattern: RegExp, name: string): Shape => simple(name, (value) => typeof value === "string" && pattern.test(value))
/** A UTC time as the contract writes it. */
export const timestamp = matching(
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u,
  "a timestamp in UTC with 3 fraction digits"
)
/** A lower-case UUID. */
export const uuid = matching(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/u, "a UUID")
/** A string of decimal digits. */
export const digits = matching(/^\d+$/u, "a string of digits")
/** An absolute URI. */
export const uri = simple(
  "an absolute http(s) URI",
  (value) => typeof value === "string" && /^https?:\/\//u.test(value) && URL.canParse(value)
)
/** Any value, also a missing one. */
export const anything: Shape = () => null
/** No value: the field is left out. */
export const absent: Shape = simple("left out", () => false)
/** `null`, or the shape. */
export const nullOr = (shape: Shape): Shape => (value, path) => value === null ? null : shape(value, path)
/** An array whose items all have the shape. */
export const listOf = (shape: Shape): Shape => (value, path) => {
  if (!Array.isArray(value)) return new Miss(`${path} to be an array`, value)
  return value.reduce<Miss | null>((found, item, i) => found ?? shape(item, `${path}[${i}]`), null)
}
/** An object of strings. */
export const textsByName: Shape = (value, path) =>
  typeof value === "object" && value !== null && !Array.isArray(value) &&
    Object.values(value).every((member) => typeof member === "string")
    ? null
    : new Miss(`${path} to be an object of strings`, value)

type Members = Readonly<Record<string, Shape>>
interface Objects {
  readonly optional?: Members
  /** Whether unlisted members are allowed. */
  readonly open?: boolean
}
/** An object with these members. `open`: others are allowed too. `optional`: members that may be missing. */
export const object = (members: Members, { open = false, optional = {} }: Objects = {}): Shape => (value, path) => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return new Miss(`${path} to be an object`, value)
  }
  const given = new Map<string, unknown>(Object.entries(value))
  for (const [name, shape] of Object.entries(members)) {
    const where = path === "" ? name : `${path}.${name}`
    if (!given.has(name)) return new Miss(`${where} to be there`, undefined)
    const wrong = shape(given.get(name), where)
    if (wrong !== null) return wrong
  }
  for (const [name, member] of given) {
    if (Object.hasOwn(members, name)) continue
    const shape = Object.hasOwn(optional, name) ? optional[name] : undefined
    if (shape === undefined && !open) return new Miss(`no member ${path === "" ? name : `${path}.${name}`}`, member)
    const wrong = shape?.(member, path === "" ? name : `${path}.${name}`) ?? null
    if (wrong !== null) return wrong
  }
  return null
}

/** Misses the rule unless the value has the shape. `what` names the value. */
export const fits = (value: unknown, shape: Shape, what: string): void => {
  const wrong = shape(value, what)
  if (wrong !== null) throw wrong
}
