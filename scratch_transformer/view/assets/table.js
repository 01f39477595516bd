// The same numbers as a table, for those who read or hear them.

import { element, tokenElement, written } from "./dom.js";

export function asTable(matrix, caption) {
  const columns = Array.from({ length: matrix.count }, (_, column) => column);
  const nameOfColumn = (column) => (matrix.columns ? tokenElement(matrix.columns[column]) : String(column + 1));
  const header = columns.map((column) => element("th", { scope: "col" }, nameOfColumn(column)));
  const lines = matrix.rows.map((token, row) => {
    const values = columns.map((column) => element("td", {}, written(matrix.at(row, column))));
    return element("tr", {}, element("th", { scope: "row" }, tokenElement(token)), ...values);
  });
  const head = element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "token"), ...header));
  return element("table", {}, element("caption", {}, caption), head, element("tbody", {}, ...lines));
}
