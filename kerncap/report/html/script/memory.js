// A strip for each region: what it holds, what the launch did to it, and which views lie in it.
const LANE = 13, GAP = 3, VIEW_LANE = 17;

async function buildRegion(article) {
  const regions = await data("data-memory");
  drawRegion(article, regions[Number(article.dataset.region)]);
}

function drawRegion(article, region) {
  const canvas = $("canvas", article);
  const wide = canvas.clientWidth || 600;
  const lanes = region.access ? 2 : 1;
  const high = lanes * (LANE + GAP) + region.rows.length * VIEW_LANE + 2; // as the style has it
  const context = sharp(canvas, wide, high);
  content(context, region, wide);
  if (region.access) access(context, region, wide, LANE + GAP);
  viewLanes(context, region, wide, lanes * (LANE + GAP) + 2);
}

function cellsOf(array, wide, draw) {
  const each = wide / Math.max(1, array.length);
  array.forEach((value, cell) => draw(value, Math.floor(cell * each), Math.ceil((cell + 1) * each) - Math.floor(cell * each)));
}

function content(context, region, wide) {
  const empty = css("--sunk");
  context.fillStyle = empty;
  context.fillRect(0, 0, wide, LANE);
  const bars = (array, colour) => {
    context.fillStyle = colour;
    cellsOf(array, wide, (share, x, width) => {
      if (share) context.fillRect(x, LANE - Math.max(2, (share / 255) * LANE), width, Math.max(2, (share / 255) * LANE));
    });
  };
  bars(region.data, css("--data"));
  bars(region.changed, css("--changed"));
  context.strokeStyle = css("--line");
  context.strokeRect(0.5, 0.5, wide - 1, LANE - 1);
}

function access(context, region, wide, top) {
  const { written, also_input: both, untouched } = region.access;
  const colours = { written: css("--written"), both: css("--both"), untouched: css("--untouched"), read: css("--read") };
  cellsOf(written, wide, (share, x, width) => {
    const cell = Math.min(written.length - 1, Math.round((x / wide) * written.length));
    const kind = both[cell] ? "both" : share ? "written" : untouched[cell] > 127 ? "untouched" : "read";
    context.fillStyle = colours[kind];
    context.fillRect(x, top, width, LANE);
  });
}

function viewLanes(context, region, wide, top) {
  context.font = `10.5px ${css("--mono")}`;
  context.textBaseline = "middle";
  region.rows.forEach((row, lane) => {
    for (const [start, stop, name] of row) {
      const x = (start / region.bytes) * wide, width = Math.max(2, ((stop - start) / region.bytes) * wide);
      const y = top + lane * VIEW_LANE;
      context.fillStyle = css("--accent");
      context.fillRect(x, y, width, 2);
      if (width < 24) continue;
      context.save();
      context.beginPath();
      context.rect(x, y, width, VIEW_LANE);
      context.clip();
      context.fillStyle = css("--soft");
      context.fillText(name, x + 2, y + 9);
      context.restore();
    }
  });
}
