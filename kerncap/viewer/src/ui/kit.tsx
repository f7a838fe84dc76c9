// Pieces that several tabs use.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

export type Rows = [name: string, value: ComponentChildren][];

/** Names and values; a row without a value is left out. */
export function FactList({ rows }: { rows: Rows }) {
  return (
    <dl class="facts">
      {rows.filter(([, value]) => value !== "" && value !== null && value !== undefined).map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}

/** A table that scrolls by itself on a narrow screen; the first column has the rows' names. */
export function Table({ caption, head, rows }: { caption: string; head: string[]; rows: ComponentChildren[][] }) {
  return (
    <div class="scrolled" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption>{caption}</caption>
        <thead><tr>{head.map((each) => <th key={each} scope="col">{each}</th>)}</tr></thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>{row.map((cell, column) => (column ? <td key={column}>{cell}</td> : <th key={column} scope="row">{cell}</th>))}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What a promise gives, and why it failed. An older one's result never replaces a newer one's. */
export function useLoaded<T>(load: () => Promise<T>, of: readonly unknown[]): { value?: T; problem?: string } {
  const [state, setState] = useState<{ value?: T; problem?: string }>({});
  useEffect(() => {
    let isCurrent = true;
    setState({});
    load().then(
      (value) => isCurrent && setState({ value }),
      (error: unknown) => isCurrent && setState({ problem: error instanceof Error ? error.message : String(error) }),
    );
    return () => void (isCurrent = false);
  }, of);
  return state;
}

export function Pending({ problem }: { problem: string | undefined }) {
  return problem ? <p role="alert" class="problem">{problem}</p> : <p role="status">Reading…</p>;
}
