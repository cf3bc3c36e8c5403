import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { type ConnectionUrl, parse, problemOf } from "../src/connection/ConnectionUrl.ts"

const place = (text: string) => {
  const { database, encryption, host, password, port, username } = Result.getOrThrow(parse(text)) satisfies ConnectionUrl
  return { host, port, username, password, database, sslmode: encryption.sslmode }
}

const NOTHING = { host: "localhost", port: 5432, username: null, password: null, database: null, sslmode: "prefer" }

describe("the URL of a database", () => {
  it("is read as libpq reads it", () => {
    const meanings: ReadonlyArray<readonly [string, Partial<ReturnType<typeof place>>]> = [
      ["postgres://", {}],
      ["postgresql://u@/db?host=/run/postgresql", { host: "/run/postgresql", username: "u", database: "db" }],
      ["postgres://u:p%40s%2Fs@db.internal:6432/my%20db", {
        host: "db.internal",
        port: 6432,
        username: "u",
        password: "p@s/s",
        database: "my db"
      }],
      ["postgres://%2Frun%2Fpostgresql/db", { host: "/run/postgresql", database: "db" }],
      ["postgres://[2001:db8::1]:6432/db", { host: "2001:db8::1", port: 6432, database: "db" }],
      ["postgres:///?user=u&password=a+b&dbname=db&host=h&port=1", {
        host: "h",
        port: 1,
        username: "u",
        password: "a+b",
        database: "db"
      }],
      // Passwords that were never encoded, as far as they cannot mean anything else.
      ["postgres://u:p@s#s:s@h/db", { host: "h", username: "u", password: "p@s#s:s", database: "db" }],
      ["postgres://h/db?sslmode=disable&sslmode=verify-ca", { host: "h", database: "db", sslmode: "verify-ca" }],
      ["postgres://h?ssl=true", { host: "h", sslmode: "require" }],
      ["postgres://h?sslrootcert=system", { host: "h", sslmode: "verify-full" }],
      ["postgres://h?sslmode=&host=", { host: "h" }],
      ["postgres://h?channel_binding=prefer&gssencmode=disable&target_session_attrs=any&client_encoding=utf8", { host: "h" }]
    ]
    for (const [text, meaning] of meanings) assert.deepStrictEqual(place(text), { ...NOTHING, ...meaning } as never, text)
  })

  it("is refused by what it asks for and cannot have", () => {
    const SEVERAL = "more than one host is not supported: use a host name that always leads to the primary, or HAProxy"
    const problems: ReadonlyArray<readonly [string, string]> = [
      ["mysql://h", "it must begin with postgres://"],
      ["postgres://h?sslmode=sometimes", "the parameter sslmode must be one of disable, allow, prefer, require, verify-ca, verify-full"],
      ["postgres://h?sslmode=require&sslrootcert=system", "the parameter sslrootcert=system needs sslmode=verify-full"],
      ["postgres://h?ssl=false", "the parameter ssl can only be true, which is sslmode=require: use sslmode"],
      ["postgres://h?sslcrl=/x", "the parameter sslcrl is not supported"],
      ["postgres://h?channel_binding=require", "the parameter channel_binding=require is not supported: use prefer or disable"],
      ["postgres://h?connect_timeout=0", "the parameter connect_timeout must be a number of seconds from 1 to 86400"],
      ["postgres://h:1,i:2/db", SEVERAL],
      ["postgres:///db?host=h,i", SEVERAL],
      ["postgres://u:p/w@h/db", "a password with / or ? must be percent-encoded: / is %2F, ? is %3F"],
      ["postgres://h?passfile=/x", "the parameter passfile is not supported: write the password into the URL, percent-encoded"],
      ["postgres://h:http/db", "the port must be a number from 1 to 65535"],
      ["postgres://h?port=65536", "the port must be a number from 1 to 65535"],
      ["postgres://u:%zz@h", "its password is not percent-encoded text"],
      ["postgres://h?application_name=%zz", "the parameter application_name is not percent-encoded text"],
      // A password that was not encoded is not shown.
      ["postgres://u:1?hunter@h/db", "its parameters must be name=value between &, percent-encoded"]
    ]
    for (const [text, problem] of problems) assert.strictEqual(problemOf(text), problem, text)
  })
})
