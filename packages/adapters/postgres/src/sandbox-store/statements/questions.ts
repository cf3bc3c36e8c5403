import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { QuestionState } from "@slipway/domain/sandbox/schema/Question"
import { Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { textArray } from "../../sql/TextArray.ts"

/** The state of these requests for answers in the given order, by the primary key. Unknown ids have no row. */
export const questionRows = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Struct({ id: SandboxId, questionIds: Schema.Array(Schema.String) }),
    Result: Schema.Struct({ ...QuestionState.fields, answers: Schema.NullOr(QuestionState.fields.answers.schema) }),
    execute: ({ id, questionIds }) =>
      sql`
        SELECT question_id AS "questionId", resolved_by AS by, answers FROM questions
        WHERE sandbox_id = ${id} AND question_id = ANY(${textArray(questionIds)}::text[])
        ORDER BY array_position(${textArray(questionIds)}::text[], question_id)`
  })
