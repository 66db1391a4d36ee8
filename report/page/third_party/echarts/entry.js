// The parts of Apache ECharts that the report page draws with. README.md says how to build
// echarts.min.js from this file.
import { use, init } from 'echarts/core';
import { BarChart, CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import {
  AriaComponent,
  DataZoomInsideComponent,
  DataZoomSliderComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TooltipComponent,
} from 'echarts/components';
import { SVGRenderer } from 'echarts/renderers';

use([
  BarChart, CustomChart, LineChart, ScatterChart,
  AriaComponent, DataZoomInsideComponent, DataZoomSliderComponent, GridComponent,
  LegendComponent, MarkLineComponent, TooltipComponent,
  SVGRenderer,
]);

export { init };
