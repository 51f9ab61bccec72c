// Values under the pointer, runs switched off and on by their names, tables copied as Markdown. The
// page is whole without it, and it asks for nothing outside the page.
"use strict";
(function () {
	const tip = document.createElement("div");
	const digits = value => Number(value.toPrecision(4)).toLocaleString("en-US",
		{maximumSignificantDigits: 4});
	const panelsOf = svg => JSON.parse(svg.dataset.panels);
	const isWithin = (box, x, y) => x >= box[0] && x <= box[1] && y >= box[2] && y <= box[3];

	function withUnit(value, unit) {
		if (unit !== "s" || value >= 1) {
			return digits(value) + (unit === "" ? "" : "\u00a0" + unit);
		}
		return value >= 1e-3 ? digits(value * 1e3) + "\u00a0ms" : digits(value * 1e6) + "\u00a0µs";
	}

	// The value at a share of an axis.
	function valueAt([low, high], scale, share) {
		const at = low + (high - low) * share;
		return scale === "log" ? low * (high / low) ** share
			: scale === "tail" ? 100 * (1 - 10 ** -at) : at;
	}
	const xValue = (panel, x) => valueAt(panel.x, panel.x_scale,
		(x - panel.box[0]) / (panel.box[1] - panel.box[0]));
	const yValue = (panel, y) => valueAt(panel.y, panel.y_scale,
		(panel.box[3] - y) / (panel.box[3] - panel.box[2]));

	// The lines and areas of a drawing: the run or layer that each belongs to, and its points. What
	// gnuplot draws faint repeats another curve.
	function shapesOf(svg) {
		const shapes = [];
		for (const element of svg.querySelectorAll("path[d], polygon")) {
			const isArea = element.tagName === "polygon";
			const run = /--run-(\d)/.exec(element.getAttribute(isArea ? "fill" : "stroke"));
			if (run === null || ["opacity", "stroke-opacity", "fill-opacity"].some(
				name => element.hasAttribute(name))) {
				continue;
			}
			for (const part of element.getAttribute(isArea ? "points" : "d").split("M")) {
				const numbers = (part.match(/-?[\d.]+/g) || []).map(Number);
				const points = numbers.flatMap((x, i) => i % 2 ? [] : [[x, numbers[i + 1]]]);
				shapes.push({run: run[1], isArea, points: isArea ? [...points, points[0]] : points});
			}
		}
		return shapes;
	}

	// The heights at which a shape meets a vertical line within a panel.
	function crossings(shape, panel, x) {
		return shape.points.slice(1).flatMap((to, i) => {
			const from = shape.points[i];
			const y = from[1] + (to[1] - from[1]) * (x - from[0]) / (to[0] - from[0]);
			return (x - from[0]) * (x - to[0]) <= 0 && isWithin(panel.box, x, y) ? [y] : [];
		});
	}

	// A value for each run at a place: of a line its height, of areas the longest part of it.
	function valuesAt(svg, panel, x) {
		const values = {};
		svg.quireShapes = svg.quireShapes || shapesOf(svg);
		for (const shape of svg.quireShapes) {
			const heights = crossings(shape, panel, x).map(y => yValue(panel, y));
			if (heights.length > 0) {
				values[shape.run] = !shape.isArea ? heights.pop() : Math.max(
					values[shape.run] || 0, Math.max(...heights) - Math.min(...heights));
			}
		}
		return values;
	}

	// The fields of a heat map, in their order: not the ground under them, not the colour scale.
	const fieldsOf = (svg, panel) => [...svg.querySelectorAll("polygon")].filter(one => {
		const [from, , to] = one.points;
		return one.getAttribute("fill") !== "var(--grid)" &&
			isWithin(panel.box, (from.x + to.x) / 2, (from.y + to.y) / 2);
	});

	function linesAt(svg, panel, x, target) {
		const cells = JSON.parse(svg.dataset.cells)[panelsOf(svg).findIndex(
			one => String(one.box) === String(panel.box))];
		if (cells !== undefined) {
			const cell = fieldsOf(svg, panel).indexOf(target);
			return cell < 0 ? [] : [panel.name + ": " + withUnit(cells[cell], panel.y_unit)];
		}
		const values = Object.entries(valuesAt(svg, panel, x)).map(([run, value]) => {
			const legend = document.querySelector(".legend .run-" + run);
			const name = panel.layers ? panel.layers[run - 1] : legend ? legend.textContent : panel.name;
			const isHidden = !panel.layers && document.body.classList.contains("hide-" + run);
			return isHidden ? [] : [name + ": " + withUnit(value, panel.y_unit)];
		});
		return [panel.x_name + ": " + withUnit(xValue(panel, x), panel.x_unit), ...values.flat()];
	}

	// A vertical line in every panel whose axis is that of the one under the pointer.
	function drawCrosshairs(under, x) {
		document.querySelectorAll(".crosshair").forEach(line => line.remove());
		for (const svg of under ? document.querySelectorAll("figure svg") : []) {
			const axis = panel => panel.x_name + panel.x_scale + panel.x;
			for (const {box} of panelsOf(svg).filter(panel => axis(panel) === axis(under))) {
				const line = document.createElementNS(svg.namespaceURI, "path");
				const share = (x - under.box[0]) / (under.box[1] - under.box[0]);
				line.setAttribute("class", "crosshair");
				line.setAttribute("d",
					`M${box[0] + share * (box[1] - box[0])},${box[2]} V${box[3]}`);
				svg.append(line);
			}
		}
	}

	function showValues(svg, event) {
		const {x, y} = new DOMPoint(event.clientX, event.clientY)
			.matrixTransform(svg.getScreenCTM().inverse());
		const panel = panelsOf(svg).find(one => isWithin(one.box, x, y));
		const lines = panel ? linesAt(svg, panel, x, event.target) : [];
		drawCrosshairs(panel && panel.x_name !== "" ? panel : null, x);
		tip.hidden = lines.length === 0;
		tip.textContent = lines.join("\n");
		const right = document.documentElement.clientWidth - tip.offsetWidth - 4;
		tip.style.left = Math.max(0, Math.min(event.clientX + 14, right)) + "px";
		tip.style.top = Math.max(0, event.clientY - tip.offsetHeight - 10) + "px";
	}

	document.body.append(Object.assign(tip, {className: "tip", hidden: true}));
	for (const svg of document.querySelectorAll("figure svg[data-panels]")) {
		svg.addEventListener("pointermove", event => showValues(svg, event));
		svg.addEventListener("pointerleave", () => drawCrosshairs(null, tip.hidden = true));
	}

	for (const name of document.querySelectorAll(".legend .name")) {
		const run = /run-\d/.exec(name.className)[0];
		name.title = "Hide or show in all figures";
		name.addEventListener("click", () => document.body.classList.toggle(run.replace("run", "hide")));
	}

	// The table's cells as they are shown, in Markdown.
	function copy(table, button) {
		const rows = [...table.rows].map(row => "| " + [...row.cells].map(
			cell => cell.innerText.replace(/\s+/g, " ").replace(/\|/g, "\\|")).join(" | ") + " |");
		rows.splice(1, 0, "|" + "---|".repeat(table.rows[0].cells.length));
		navigator.clipboard.writeText(rows.join("\n") + "\n").then(
			() => button.textContent = "Copied", () => button.textContent = "Not copied");
	}
	for (const table of navigator.clipboard ? document.querySelectorAll(".scroll > table") : []) {
		const button = document.createElement("button");
		button.textContent = "Copy as Markdown";
		button.addEventListener("click", () => copy(table, button));
		table.parentElement.before(button);
	}
})();
